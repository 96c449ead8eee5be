// Drawings by kind of board; envs/drawing.py defines the terms in which games describe their boards.

import * as grid from "./grid.js";
import * as table from "./table.js";
import * as text from "./text.js";

const KINDS = { grid, table };

// Returns an `element`, an `aside` or null, `show(frame, view)` and `describe(frame, view)`; a view has the names of the
// seats (`names`, `letters`) and the seats that are not drawn (`hidden`).
export const createBoard = (board) => (KINDS[board.kind] ?? text).create(board);
