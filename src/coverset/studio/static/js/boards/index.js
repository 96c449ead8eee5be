// Which drawing belongs to which kind of board; games describe their boards in the terms of envs/drawing.py.

import * as grid from "./grid.js";
import * as table from "./table.js";
import * as text from "./text.js";

const KINDS = { grid, table };

// What is returned has an `element`, an `aside` or null, `show(frame, view)` and `describe(frame, view)`; a view says
// what the two seats are called (`names`, `letters`) and which of them is not seen (`hidden`, or null).
export const createBoard = (board) => (KINDS[board.kind] ?? text).create(board);
