// A payoff table: rows are actions of seat 0, columns of seat 1. The last joint action is highlighted.

import { h } from "../dom.js";

export function create(board) {
  const { payoffs, row_names: rows, column_names: columns } = board.table;
  const table = payoffTable(board.table);
  return {
    element: table.element,
    aside: null,
    show: (frame) => table.mark(frame.scene.played),
    describe(frame, view) {
      if (!frame.scene.played) return frame.scene.words || "No action has been played yet.";
      const [row, column] = frame.scene.played;
      const played = `${view.names[0]}: ${rows[row]}. ${view.names[1]}: ${columns[column]}. Reward ${payoffs[row][column]}.`;
      return [played, frame.scene.words].filter(Boolean).join(" ");
    },
  };
}

export function payoffTable({ payoffs, row_names: rows, column_names: columns, caption }, seats = 2) {
  const cells = payoffs.map((row) => row.map((value) => h("td", {}, String(value))));
  const element = h(
    "table",
    { class: "payoffs" },
    h("caption", {}, caption),
    h("thead", {}, h("tr", {}, h("td", { class: "corner" }, seats > 2 ? "○ row, others column" : "○ row, □ column"), columns.map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, cells.map((row, i) => h("tr", {}, h("th", { scope: "row" }, rows[i]), row))),
  );
  return {
    element: h("div", { class: "payoffs-frame" }, element),
    mark(played) {
      for (const [i, row] of cells.entries())
        for (const [j, cell] of row.entries()) cell.classList.toggle("played", Boolean(played) && played[0] === i && played[1] === j);
    },
  };
}
