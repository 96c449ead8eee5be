// Which drawing belongs to which kind of board.

import * as foraging from "./foraging.js";
import * as matrix from "./matrix.js";
import * as reaching from "./reaching.js";
import * as text from "./text.js";

const KINDS = { foraging, matrix, reaching };

// What is returned has an `element`, an `aside` or null, `show(frame, view)` and `describe(frame, view)`; a view says
// what the two seats are called (`names`, `letters`) and which of them is not seen (`hidden`, or null).
export const createBoard = (board) => (KINDS[board.kind] ?? text).create(board);
