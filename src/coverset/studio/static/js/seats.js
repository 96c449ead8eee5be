// Names and shapes of the seats. Grids show players counted from 1; texts of a game know seats, counted from 0.

import { short } from "./dom.js";

export const SHAPES = [["disc", "○"], ["square", "□"], ["diamond", "◇"], ["triangle", "△"]];

export const allSeats = (board) => Array.from({ length: board.num_seats }, (_, seat) => seat);

export const otherSeats = (board, seat) => allSeats(board).filter((other) => other !== seat);

export const seatName = (board, seat) => (board.kind === "text" ? `seat ${seat}` : `player ${seat + 1}`);

// own: what the player in `seat` is called; the other one of two is the partner.
export const seatNames = (board, seat, own) =>
  allSeats(board).map((other) => (other === seat ? own : board.num_seats === 2 ? "Partner" : seatName(board, other).replace(/^./, (letter) => letter.toUpperCase())));

// How a person finds the player in `seat`. From the fifth player on, only numbers tell players apart.
export function describeSeat(board, seat) {
  if (board.kind === "text") return `in seat ${seat}`;
  const shape = SHAPES[seat] ? `the ${SHAPES[seat].join(" ")}` : "a disc";
  return board.num_seats > 2 ? `player ${seat + 1} of ${board.num_seats}, ${shape}` : shape;
}

// What tells the seats of one policy apart.
export const shapeName = (board, seat) => (board.kind === "text" ? `seat ${seat}` : SHAPES[seat]?.[0] ?? `player ${seat + 1}`);

export const showReturns = (returns, names) => returns.map((value, seat) => `${names[seat]}: ${short(value)}`).join(", ");
