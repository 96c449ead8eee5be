// A grid with two players, fixed places and objects, and a payoff table if the board has one. Seat 0 is a disc, seat 1 a
// square.

import { s } from "../dom.js";
import { payoffTable } from "./table.js";

const CELL = 10;

const middle = ([row, column]) => [column * CELL + CELL / 2, row * CELL + CELL / 2];
const where = ([row, column]) => `row ${row + 1}, column ${column + 1}`;
const same = (one, other) => one && other && one[0] === other[0] && one[1] === other[1];
const nameOf = (mark) => mark.name || mark.label;

export function create(board) {
  const drawn = drawGrid(board.grid);
  const table = board.table && payoffTable(board.table);
  return {
    element: drawn.element,
    aside: table ? table.element : null,
    show(frame, view) {
      const { positions = [], objects = [], played = null } = frame.scene;
      drawn.objects.replaceChildren(...objects.flatMap(drawObject));
      drawn.place(positions, view, (frame.actions ?? []).map((action, seat) => board.actions[seat][action]?.highlighted));
      table?.mark(played);
    },
    describe(frame, view) {
      const { positions = [], objects = [], words = "" } = frame.scene;
      const players = positions.map((cell, seat) => cell && view.hidden !== seat && `${view.names[seat]}: ${where(cell)}${at(board, cell)}.`);
      const rest = words || (objects.length ? `On the grid: ${objects.map((mark) => `${nameOf(mark)} at ${where(mark.cell)}`).join("; ")}.` : "");
      return [...players, rest].filter(Boolean).join(" ");
    },
  };
}

function at(board, cell) {
  const place = board.grid.places.find((mark) => same(mark.cell, cell));
  return place ? `, ${nameOf(place)}` : "";
}

function drawPlace(mark) {
  const [x, y] = middle(mark.cell);
  return [
    s("rect", { x: x - 4.6, y: y - 4.6, width: 9.2, height: 9.2, rx: 1.2, class: "goal" }),
    s("text", { x, y: y + 1.8, class: "goal-name" }, mark.label),
  ];
}

function drawObject(mark) {
  const [x, y] = middle(mark.cell);
  return [s("circle", { cx: x, cy: y, r: 3.6, class: "object" }), s("text", { x, y: y + 1.6, class: "object-name" }, mark.label)];
}

function drawGrid({ num_rows: rows, num_columns: columns, places }) {
  const cells = [];
  for (let row = 0; row < rows; row += 1)
    for (let column = 0; column < columns; column += 1)
      cells.push(s("rect", { x: column * CELL + 0.4, y: row * CELL + 0.4, width: CELL - 0.8, height: CELL - 0.8, rx: 1.2, class: "ground" }));
  const objects = s("g", {});
  const players = [0, 1].map((seat) => s("g", { class: `player seat-${seat} hidden` }));
  players[0].append(s("circle", { r: 3.1 }), s("text", { y: 1.3, class: "letter" }, ""));
  players[1].append(s("rect", { x: -2.9, y: -2.9, width: 5.8, height: 5.8, rx: 1 }), s("text", { y: 1.3, class: "letter" }, ""));
  const label = "The grid. Its state is described below.";
  const element = s("svg", { viewBox: `0 0 ${columns * CELL} ${rows * CELL}`, class: "board", role: "img", "aria-label": label }, cells, places.flatMap(drawPlace), objects, players);
  return {
    element,
    objects,
    place(positions, { hidden, letters }, acting) {
      const together = hidden === null && same(positions[0], positions[1]);
      positions.forEach((cell, seat) => {
        const player = players[seat];
        player.classList.toggle("hidden", hidden === seat || !cell);
        player.classList.toggle("acting", Boolean(acting[seat]));
        player.querySelector("text").textContent = letters[seat];
        if (!cell) return;
        const [x, y] = middle(cell).map((length) => length + (together ? (seat ? 1.7 : -1.7) : 0));
        player.style.transform = `translate(${x}px, ${y}px)`;
        player.dataset.cell = cell.join(",");
      });
    },
  };
}
