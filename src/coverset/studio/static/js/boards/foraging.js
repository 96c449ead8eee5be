// Level-based Foraging: a grid with objects that both players must load together.

import { s } from "../dom.js";
import { grid, where } from "./grid.js";

export function create(board) {
  const drawn = grid(board.size, "The grid. What happens on it is told below.");
  const load = board.actions[0].findIndex((action) => action.name === "load");
  return {
    element: drawn.element,
    aside: null,
    show(frame, view) {
      drawn.things.replaceChildren(
        ...frame.scene.objects.flatMap((cell, number) => {
          if (!cell) return [];
          const [x, y] = drawn.middle(cell);
          return [s("circle", { cx: x, cy: y, r: 3.6, class: "object" }), s("text", { x, y: y + 1.6, class: "object-name" }, String(number + 1))];
        }),
      );
      drawn.place(frame.scene.positions, { ...view, acting: (frame.actions ?? []).map((action) => action === load) });
    },
    describe(frame, view) {
      const left = frame.scene.objects.map((cell, number) => cell && `object ${number + 1} at ${where(cell)}`).filter(Boolean);
      const players = frame.scene.positions.map((cell, seat) => (view.hidden === seat ? null : `${view.names[seat]}: ${where(cell)}`)).filter(Boolean);
      return `${players.join(". ")}. ${left.length ? `Left: ${left.join("; ")}` : "Everything is collected"}.`;
    },
  };
}
