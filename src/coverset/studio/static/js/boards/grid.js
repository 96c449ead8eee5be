// A square grid with two players on it, shared by the games that have one. Seat 0 is a disc, seat 1 a square.

import { s } from "../dom.js";

const CELL = 10;

export function grid(size, label) {
  const cells = [];
  for (let row = 0; row < size; row += 1)
    for (let column = 0; column < size; column += 1)
      cells.push(s("rect", { x: column * CELL + 0.4, y: row * CELL + 0.4, width: CELL - 0.8, height: CELL - 0.8, rx: 1.2, class: "ground" }));
  const things = s("g", {});
  const players = [0, 1].map((seat) => s("g", { class: `player seat-${seat}` }));
  players[0].append(s("circle", { r: 3.1 }), s("text", { y: 1.3, class: "letter" }, ""));
  players[1].append(s("rect", { x: -2.9, y: -2.9, width: 5.8, height: 5.8, rx: 1 }), s("text", { y: 1.3, class: "letter" }, ""));
  const element = s("svg", { viewBox: `0 0 ${size * CELL} ${size * CELL}`, class: "board", role: "img", "aria-label": label }, cells, things, players);
  return {
    element,
    things,
    middle: ([row, column]) => [column * CELL + CELL / 2, row * CELL + CELL / 2],
    place(positions, { hidden, letters, acting = [] }) {
      const together = positions[0][0] === positions[1][0] && positions[0][1] === positions[1][1] && hidden === null;
      positions.forEach(([row, column], seat) => {
        const aside = together ? (seat ? 1.7 : -1.7) : 0;
        const player = players[seat];
        player.style.transform = `translate(${column * CELL + CELL / 2 + aside}px, ${row * CELL + CELL / 2 + aside}px)`;
        player.classList.toggle("hidden", hidden === seat);
        player.classList.toggle("acting", Boolean(acting[seat]));
        player.dataset.cell = `${row},${column}`;
        player.querySelector("text").textContent = letters[seat];
      });
    },
  };
}

export const where = ([row, column]) => `row ${row + 1}, column ${column + 1}`;
