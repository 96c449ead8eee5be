// Router: shows the page that the fragment of the address names.

import { announce, h } from "./dom.js";

const PAGES = {
  runs: ["Runs", () => import("./pages/runs.js")],
  run: ["Training", () => import("./pages/run.js")],
  "cross-play": ["Cross-play", () => import("./pages/cross-play.js")],
  coverage: ["Coverage", () => import("./pages/coverage.js")],
  play: ["Play", () => import("./pages/play.js")],
  recordings: ["Recordings", () => import("./pages/recordings.js")],
};
let leave = () => {};
let visits = 0;

async function show() {
  if (location.hash && !location.hash.startsWith("#/")) return; // the skip link
  const [name, query] = location.hash.slice(2).split("?");
  const [title, load] = PAGES[name] ?? PAGES.runs;
  const visit = ++visits;
  leave();
  leave = () => {};
  const main = document.getElementById("main");
  for (const link of document.querySelectorAll("nav a")) {
    const here = link.dataset.page === (name === "run" ? "runs" : PAGES[name] ? name : "runs");
    if (here) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${title} – coverset studio`;
  const page = await load();
  if (visit !== visits) return;
  main.replaceChildren(h("h1", {}, title));
  if (visit > 1) {
    main.focus({ preventScroll: true });
    window.scrollTo(0, 0);
    announce(title);
  }
  leave = page.show(main, new URLSearchParams(query)) ?? (() => {});
}

window.addEventListener("hashchange", show);
show();
