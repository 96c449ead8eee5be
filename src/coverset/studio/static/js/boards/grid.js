// A grid with players, fixed places and objects, and a payoff table if the board has one. Every seat has a shape and a
// colour of its own, up to the number of shapes.

import { s } from "../dom.js";
import { allSeats, SHAPES } from "../seats.js";
import { drawIcon } from "./icons.js";
import { payoffTable } from "./table.js";

const CELL = 10;
const COLOURS = 6;
const DRAWN = {
  disc: () => s("circle", { r: 3.1 }),
  square: () => s("rect", { x: -2.9, y: -2.9, width: 5.8, height: 5.8, rx: 1 }),
  diamond: () => s("path", { d: "M0 -4 L4 0 L0 4 L-4 0 Z" }),
  triangle: () => s("path", { d: "M0 -3.8 L4 3.1 L-4 3.1 Z" }),
};

const TURNS = { up: 0, right: 90, down: 180, left: 270 };

const middle = ([row, column]) => [column * CELL + CELL / 2, row * CELL + CELL / 2];
const where = ([row, column]) => `row ${row + 1}, column ${column + 1}`;
const same = (one, other) => one && other && one[0] === other[0] && one[1] === other[1];
const nameOf = (mark) => mark.name || mark.label;

export function create(board) {
  const drawn = drawGrid(board);
  const table = board.table && payoffTable(board.table, board.num_seats);
  return {
    element: drawn.element,
    aside: table ? table.element : null,
    show(frame, view) {
      const { positions = [], objects = [], played = null, facing = [], carried = [] } = frame.scene;
      drawn.objects.replaceChildren(...objects.flatMap(drawObject));
      drawn.place(visible(positions, view), view.letters, (frame.actions ?? []).map((action, seat) => board.actions[seat][action]?.highlighted));
      drawn.dress(facing, carried);
      table?.mark(played);
    },
    describe(frame, view) {
      const { positions = [], objects = [], words = "" } = frame.scene;
      const players = visible(positions, view).map((cell, seat) => cell && `${view.names[seat]}: ${where(cell)}${at(board, cell)}.`);
      const rest = words || (objects.length ? `On the grid: ${objects.map((mark) => `${nameOf(mark)} at ${where(mark.cell)}`).join("; ")}.` : "");
      return [...players, rest].filter(Boolean).join(" ");
    },
  };
}

const visible = (positions, view) => positions.map((cell, seat) => (view.hidden.includes(seat) ? null : cell));

function at(board, cell) {
  const place = board.grid.places.find((mark) => same(mark.cell, cell));
  return place ? `, ${nameOf(place)}` : "";
}

// A picture on its cell, or null for a mark without one.
function drawPicture(mark) {
  const picture = drawIcon(mark.icon, mark.label);
  picture?.setAttribute("transform", `translate(${middle(mark.cell).join(" ")})`);
  return picture;
}

function drawPlace(mark) {
  const [x, y] = middle(mark.cell);
  const picture = drawPicture(mark);
  if (picture) return [picture];
  return [
    s("rect", { x: x - 4.6, y: y - 4.6, width: 9.2, height: 9.2, rx: 1.2, class: "goal" }),
    s("text", { x, y: y + 1.8, class: "goal-name" }, mark.label),
  ];
}

function drawObject(mark) {
  const [x, y] = middle(mark.cell);
  const picture = drawPicture(mark);
  if (picture) return [picture];
  return [s("circle", { cx: x, cy: y, r: 3.6, class: "object" }), s("text", { x, y: y + 1.6, class: "object-name" }, mark.label)];
}

function drawPlayer(seat) {
  const [shape] = SHAPES[seat] ?? SHAPES[0];
  return s("g", { class: `player seat-${seat} colour-${seat % COLOURS} hidden` }, s("path", { d: "M-2 -2.6 L0 -4.8 L2 -2.6 Z", class: "nose hidden" }), DRAWN[shape](), s("g", { class: "carried" }), s("text", { y: shape === "triangle" ? 2 : 1.3, class: "letter" }, ""));
}

// Where player `number` of `count` on one cell is drawn, from the middle of the cell, and how large.
function share(number, count) {
  if (count === 1) return [0, 0, 1];
  if (count === 2) return number ? [1.7, 1.7, 1] : [-1.7, -1.7, 1];
  const angle = (2 * Math.PI * number) / count - Math.PI / 2;
  return [2.5 * Math.cos(angle), 2.5 * Math.sin(angle), 0.62];
}

function drawGrid(board) {
  const { num_rows: rows, num_columns: columns, places } = board.grid;
  const cells = [];
  for (let row = 0; row < rows; row += 1)
    for (let column = 0; column < columns; column += 1)
      cells.push(s("rect", { x: column * CELL + 0.4, y: row * CELL + 0.4, width: CELL - 0.8, height: CELL - 0.8, rx: 1.2, class: "ground" }));
  const objects = s("g", {});
  const players = allSeats(board).map(drawPlayer);
  const label = "The grid. Its state is described below.";
  const element = s("svg", { viewBox: `0 0 ${columns * CELL} ${rows * CELL}`, class: "board", role: "img", "aria-label": label }, cells, places.flatMap(drawPlace), objects, players);
  return {
    element,
    objects,
    dress(facing, carried) {
      players.forEach((player, seat) => {
        const nose = player.querySelector(".nose");
        nose.classList.toggle("hidden", !(facing[seat] in TURNS));
        nose.setAttribute("transform", `rotate(${TURNS[facing[seat]] ?? 0})`);
        const picture = drawIcon(carried[seat]);
        picture?.setAttribute("transform", "translate(2.2 2.4) scale(0.75)");
        player.querySelector(".carried").replaceChildren(...(picture ? [picture] : []));
      });
    },
    place(positions, letters, acting) {
      players.forEach((player, seat) => {
        const cell = positions[seat];
        player.classList.toggle("hidden", !cell);
        player.classList.toggle("acting", Boolean(acting[seat]));
        player.querySelector(".letter").textContent = letters[seat];
        delete player.dataset.cell;
        if (!cell) return player.style.removeProperty("transform");
        const here = allSeats(board).filter((other) => same(positions[other], cell));
        const [right, down, scale] = share(here.indexOf(seat), here.length);
        const [x, y] = middle(cell);
        player.style.transform = `translate(${x + right}px, ${y + down}px) scale(${scale})`;
        player.dataset.cell = cell.join(",");
      });
    },
  };
}
