// Pictures of a grid's stations and objects by name (`icon` in envs/drawing.py), drawn around the middle of a cell that is
// ten units wide.

import { s } from "../dom.js";

const disc = (r, name, cy = 0, cx = 0) => s("circle", { cx, cy, r, class: name });
const block = (name) => s("rect", { x: -5, y: -5, width: 10, height: 10, class: name });

const onion = (x = 0, y = 0, size = 1) =>
  s("g", { transform: `translate(${x} ${y}) scale(${size})` },
    s("path", { d: "M0 -2.6 C0.6 -1.6 2.6 -1.2 2.6 0.7 A2.6 2.2 0 0 1 -2.6 0.7 C-2.6 -1.2 -0.6 -1.6 0 -2.6 Z", class: "icon-onion" }),
    s("path", { d: "M0 -1.6 L0 2.6 M-1.2 -0.6 Q-1.8 0.9 -1 2.2 M1.2 -0.6 Q1.8 0.9 1 2.2", class: "icon-line" }));
const plate = (x = 0, y = 0, size = 1) => s("g", { transform: `translate(${x} ${y}) scale(${size})` }, disc(2.8, "icon-plate"), disc(1.7, "icon-rim"));

const DRAWN = {
  counter: () => [block("icon-counter")],
  onions: () => [block("icon-station"), onion(-1.7, 1.1, 0.8), onion(1.7, 1.1, 0.8), onion(0, -1.5, 0.8)],
  plates: () => [block("icon-station"), plate(0, 1.4, 0.9), plate(0, 0.2, 0.9), plate(0, -1, 0.9)],
  hatch: () => [block("icon-hatch"), s("path", { d: "M-1.1 3 L-1.1 -0.2 L-2.8 -0.2 L0 -3.2 L2.8 -0.2 L1.1 -0.2 L1.1 3 Z", class: "icon-arrow" })],
  pot: () => [block("icon-station"), s("rect", { x: -4.6, y: -0.8, width: 9.2, height: 1.6, rx: 0.8, class: "icon-pot" }), disc(3.7, "icon-pot"), disc(2.9, "icon-hollow")],
  onion: () => [onion()],
  plate: () => [plate()],
  soup: () => [plate(), disc(1.7, "icon-soup")],
  filling: () => [disc(2.9, "icon-water")],
  cooking: () => [disc(2.9, "icon-soup")],
  done: () => [disc(2.9, "icon-soup"), disc(3.7, "icon-ready"), s("path", { d: "M-1.6 0 L-0.4 1.3 L1.8 -1.3", class: "icon-check" })],
};

// The picture of an icon with a label on it; nothing for a name that is not known.
export function drawIcon(icon, label = "") {
  const drawn = DRAWN[icon];
  return drawn ? s("g", { class: `icon icon-of-${icon}` }, drawn(), label && s("text", { y: 1, class: "icon-label" }, label)) : null;
}
