// Any other environment, as the text of its `render`.

import { h } from "../dom.js";

export function create() {
  const text = h("pre", { class: "text-board", tabindex: 0, "aria-label": "The state as text" });
  return {
    element: text,
    aside: null,
    show: (frame) => (text.textContent = frame.scene.text ?? JSON.stringify(frame.scene)),
    describe: (frame) => `Step ${frame.time}.`,
  };
}
