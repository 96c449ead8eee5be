// The repeated matrix game: the table of payoffs, with the round that was played marked in it.

import { payoffTable } from "./table.js";

export function create(board) {
  const [rows, columns] = board.actions.map((actions) => actions.map((action) => action.name));
  const table = payoffTable(board.table, rows, columns, "What the pair earns");
  return {
    element: table.element,
    aside: null,
    show: (frame) => table.mark(frame.scene.played),
    describe(frame, view) {
      if (!frame.scene.played) return "Nothing is played yet.";
      const [row, column] = frame.scene.played;
      return `${view.names[0]}: ${rows[row]}. ${view.names[1]}: ${columns[column]}. That pays ${board.table[row][column]}.`;
    },
  };
}
