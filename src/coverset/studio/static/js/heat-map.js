// The K x K matrix of returns as a table of buttons. Arrow keys move between cells.

import { h, sameDecimals, short } from "./dom.js";

// low, top: values of the darkest and brightest colour, so that two maps can share one scale.
export function heatMap(matrix, { low, top, chosen, onchoose, words = [] }) {
  const size = matrix.length;
  const share = (value) => (top - low < 1e-9 ? 0 : (value - low) / (top - low));
  const write = sameDecimals(Math.max(Math.abs(low), Math.abs(top)));
  const buttons = [];
  const cell = (value, i, j) => {
    const here = chosen && chosen[0] === i && chosen[1] === j;
    const bright = value !== null && share(value) > 0.55;
    const button = h(
      "button",
      {
        type: "button",
        "data-key": `cell-${i}-${j}`,
        class: `cell${bright ? " bright" : ""}${i === j ? " own" : ""}`,
        vars: { "--share": `${Math.round(100 * Math.max(0, Math.min(1, value === null ? 0 : share(value))))}%` },
        tabindex: here || (!chosen && i === 0 && j === 0) ? 0 : -1,
        "aria-pressed": here ? "true" : "false",
        "aria-label": `Best response ${i + 1} with teammate ${j + 1}: ${value === null ? "unknown" : short(value)}${i === j ? ", self-play" : ""}. Watch.`,
        disabled: !onchoose,
        onclick: () => onchoose(i, j),
        onkeydown: (event) => move(event, i, j),
      },
      write(value),
    );
    buttons.push(button);
    return h("td", {}, button);
  };
  const move = (event, i, j) => {
    const [down, right] = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key] ?? [0, 0];
    if (!down && !right) return;
    event.preventDefault();
    const row = Math.max(0, Math.min(size - 1, i + down));
    const column = Math.max(0, Math.min(size - 1, j + right));
    for (const button of buttons) button.tabIndex = -1;
    buttons[row * size + column].tabIndex = 0;
    buttons[row * size + column].focus();
  };
  return h(
    "table",
    { class: "heat" },
    h("caption", {}, "Mean return of each pair. Rows are best responses, columns teammates; the framed diagonal is self-play."),
    h("thead", {}, h("tr", { "aria-hidden": "true" }, h("td", { class: "axis" }, "best response"), h("td", { class: "axis", colspan: size }, "teammate")),
      h("tr", {}, h("td", {}), matrix.map((_, j) => h("th", { scope: "col" }, h("span", { class: "unseen" }, "teammate "), j + 1)))),
    h("tbody", {}, matrix.map((row, i) =>
      h("tr", {}, h("th", { scope: "row" }, h("span", { class: "unseen" }, "best response "), `${i + 1}`, words[i] && h("small", {}, words[i])), row.map((value, j) => cell(value, i, j))),
    )),
  );
}
