// Cooperative Reaching, weighted or not: a grid with four corners, and what pairs of corners pay.

import { s } from "../dom.js";
import { grid, where } from "./grid.js";
import { payoffTable } from "./table.js";

export function create(board) {
  const drawn = grid(board.size, "The grid. What happens on it is told below.");
  for (const [name, cell] of Object.entries(board.corners)) {
    const [x, y] = drawn.middle(cell);
    drawn.things.append(
      s("rect", { x: x - 4.6, y: y - 4.6, width: 9.2, height: 9.2, rx: 1.2, class: "goal" }),
      s("text", { x, y: y + 1.8, class: "goal-name" }, name),
    );
  }
  const names = Object.keys(board.corners);
  const corner = ([row, column]) => names.find((name) => board.corners[name][0] === row && board.corners[name][1] === column);
  const table = payoffTable(board.payoffs, names, names, "What the corners pay");
  return {
    element: drawn.element,
    aside: table.element,
    show(frame, view) {
      drawn.place(frame.scene.positions, view);
      table.mark(frame.ended === "terminated" ? frame.scene.positions.map((cell) => names.indexOf(corner(cell))) : null);
    },
    describe: (frame, view) =>
      frame.scene.positions
        .map((cell, seat) => (view.hidden === seat ? null : `${view.names[seat]}: ${where(cell)}${corner(cell) ? `, corner ${corner(cell)}` : ""}`))
        .filter(Boolean)
        .join(". ") + ".",
  };
}
