// Names and shapes of the seats. Seats count from 0, players are shown counted from 1.

import { short } from "./dom.js";

export const SHAPES = [["disc", "○"], ["square", "□"], ["diamond", "◇"], ["triangle", "△"]];

export const allSeats = (board) => Array.from({ length: board.num_seats }, (_, seat) => seat);

export const otherSeats = (board, seat) => allSeats(board).filter((other) => other !== seat);

// own: what the player in `seat` is called; the other one of two is the partner.
export const seatNames = (board, seat, own) =>
  allSeats(board).map((other) => (other === seat ? own : board.num_seats === 2 ? "Partner" : `Player ${other + 1}`));

// From the fifth player on, only numbers tell players apart.
export function describeShape(board, seat) {
  if (board.kind === "text") return `in seat ${seat} of 0 to ${board.num_seats - 1}`;
  const shape = SHAPES[seat] ? `the ${SHAPES[seat].join(" ")}` : "a disc";
  return board.num_seats > 2 ? `player ${seat + 1} of ${board.num_seats}, ${shape}` : shape;
}

export const showReturns = (returns, names) => returns.map((value, seat) => `${names[seat]}: ${short(value)}`).join(", ");
