// Any other environment, as the text of its `render`.

import { h } from "../dom.js";

export function create() {
  const text = h("pre", { class: "text-board", tabindex: 0, "aria-label": "The state as text" });
  // Lines of the same length may be a grid, which is scrolled; other lines are wrapped.
  const write = (content) => {
    text.textContent = content;
    text.classList.toggle("wrapped", new Set(content.split("\n").map((line) => line.length)).size > 1);
  };
  return {
    element: text,
    aside: null,
    show: (frame) => write(frame.scene.text ?? JSON.stringify(frame.scene)),
    describe: (frame) => `Step ${frame.time}.`,
  };
}
