// A table of payoffs: rows are seat 0's, columns seat 1's.

import { h } from "../dom.js";

export function payoffTable(payoffs, rows, columns, caption) {
  const cells = payoffs.map((row) => row.map((value) => h("td", {}, String(value))));
  const element = h(
    "table",
    { class: "payoffs" },
    h("caption", {}, caption),
    h("thead", {}, h("tr", {}, h("td", { class: "corner" }, "○ row, □ column"), columns.map((name) => h("th", { scope: "col" }, name)))),
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
