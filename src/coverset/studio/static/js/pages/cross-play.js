// The cross-play matrix of a run, a pair to watch, and optionally a second run for comparison.

import { api, newSeed } from "../api.js";
import { announce, h, refill, select } from "../dom.js";
import { heatMap } from "../heat-map.js";
import { otherSeats, shapeName } from "../seats.js";
import { createViewer } from "../viewer.js";
import { address, runName } from "../words.js";

const flat = (matrix) => matrix.flat().filter((value) => value !== null);

// The best response has seat 0; the teammate plays all others.
function viewOf(board, i, j) {
  const others = otherSeats(board, 0);
  const teammates = others.map((seat) => (others.length > 1 ? `Teammate ${j + 1} (${shapeName(board, seat)})` : `Teammate ${j + 1}`));
  return { names: [`Best response ${i + 1}`, ...teammates], letters: [`${i + 1}`, ...others.map(() => `${j + 1}`)], hidden: [] };
}

function describe(details, i, j, board = null) {
  const line = (words, name, seats) => h("p", {}, h("b", {}, name, board && ` (${seats.map((seat) => shapeName(board, seat)).join(", ")})`), words ? ` in self-play: ${words}.` : " has no known convention.");
  return h("div", { class: "description" },
    h("h3", {}, `Best response ${i + 1} with teammate ${j + 1}`, i === j ? " (self-play)" : " (cross-play)"),
    line(details.best_response_conventions?.[i], `Best response ${i + 1}`, [0]),
    line(details.conventions?.[j], `Teammate ${j + 1}`, board && otherSeats(board, 0)));
}

// One run: its heat map and the chosen pair.
function panel(run, scale) {
  const map = h("div", { class: "map" });
  const watching = h("div", { class: "watching" }, run.watchable && h("p", { class: "hint" }, "Choose a cell to watch that pair."));
  const element = h("section", { class: "panel" }, h("h2", {}, runName(run)), h("div", { class: "pairing" }, map, watching));
  let viewer = null;
  let chosen = null;
  let visit = 0;
  const draw = () => refill(map, run.cross_play
    ? [heatMap(run.cross_play, { ...scale, chosen, words: run.covers ?? [], onchoose: run.watchable ? choose : null }),
       h("p", { class: "quiet" }, run.cross_play_measured ? "Measured over 512 episodes of each pair." : "From the latest training episodes, in which policies explore."),
       !run.watchable && h("p", {}, "Pairs can be watched after training.")]
    : h("p", { class: "problem" }, run.message || "There are no returns to show yet."));
  async function choose(i, j) {
    chosen = [i, j];
    draw();
    const mine = ++visit;
    viewer?.stop();
    refill(watching, describe(run, i, j), h("p", { class: "quiet", role: "status" }, "Loading the policies. The first time takes a few seconds."));
    try {
      const played = await api.watch(run.id, i + 1, j + 1, newSeed());
      if (mine !== visit) return;
      viewer = createViewer(played, viewOf(played.board, i, j), { label: `Best response ${i + 1} with teammate ${j + 1}`, onrestart: () => choose(i, j) });
      refill(watching, describe(run, i, j, played.board), viewer.element);
      viewer.play();
      announce(`Best response ${i + 1} with teammate ${j + 1} play.`);
    } catch (error) {
      if (mine === visit) refill(watching, describe(run, i, j), h("p", { class: "problem", role: "alert" }, error.message));
    }
  }
  // What probes found: the teammate that the set serves worst, with the best member and with its own best response.
  async function watchProbe(probe, number, title) {
    chosen = null;
    draw();
    const mine = ++visit;
    viewer?.stop();
    const heading = h("div", { class: "description" }, h("h3", {}, title), probe.teammate && h("p", {}, h("b", {}, "The teammate"), ` in this play: ${probe.teammate}.`));
    refill(watching, heading, h("p", { class: "quiet", role: "status" }, "Loading the policies. The first time takes a few seconds."));
    try {
      const played = await api.watch(run.id, number, 1, newSeed(), probe.name);
      if (mine !== visit) return;
      const others = otherSeats(played.board, 0);
      const view = { names: ["Best response", ...others.map(() => "Teammate found")], letters: ["B", ...others.map(() => "T")], hidden: [] };
      viewer = createViewer(played, view, { label: title, onrestart: () => watchProbe(probe, number, title) });
      refill(watching, heading, viewer.element);
      viewer.play();
      announce(`${title} play.`);
    } catch (error) {
      if (mine === visit) refill(watching, heading, h("p", { class: "problem", role: "alert" }, error.message));
    }
  }
  const ways = (probe) => [
    probe.served_by && [probe.served_by, `Best response ${probe.served_by} with the teammate found`, "Watch the best member of the set with it"],
    [0, "The teammate found with its own best response", "Watch it with its own best response"],
  ].filter(Boolean);
  element.append(...(run.watchable ? run.probes ?? [] : []).map((probe) => h("p", { class: "links" }, `${probe.name}: ${probe.sentence ?? ""} `,
    ways(probe).map(([number, title, text]) => h("button", { type: "button", onclick: () => watchProbe(probe, number, title) }, text)))));
  draw();
  return { element, stop: () => { visit += 1; viewer?.stop(); } };
}

export function show(main, fields) {
  let panels = [];
  let left = false;
  const body = h("div", {}, h("p", { class: "quiet" }, "Loading runs."));
  main.append(h("p", { class: "lead" }, "Every best response plays with every teammate. Choose a cell to watch that pair: self-play is on the diagonal, cross-play elsewhere."), body);
  const go = (changes) => (location.hash = address("cross-play", Object.fromEntries(Object.entries({ run: fields.get("run"), with: fields.get("with"), ...changes }).filter(([, value]) => value))));
  (async () => {
    const { runs } = await api.runs();
    const usable = runs.filter((run) => run.state !== "damaged");
    if (left) return;
    if (!usable.length) return refill(body, h("p", {}, "There are no runs to show yet."));
    const first = usable.find((run) => run.id === fields.get("run")) ?? usable.find((run) => run.watchable) ?? usable[0];
    const second = usable.find((run) => run.id === fields.get("with"));
    const details = await Promise.all([first, second].filter(Boolean).map((run) => api.run(run.id)));
    if (left) return;
    const known = details.filter((run) => run.cross_play).flatMap((run) => flat(run.cross_play));
    const scale = { low: Math.min(0, ...known), top: Math.max(...known, 1e-6) };
    panels = details.map((run) => panel(run, scale));
    const options = usable.map((run) => ({ value: run.id, text: runName(run) }));
    refill(body,
      h("div", { class: "choices" }, select("Run", options, first.id, (run) => go({ run })),
        select("Compare with", [{ value: "", text: "nothing" }, ...options.filter((option) => option.value !== first.id)], second?.id ?? "", (run) => go({ run: first.id, with: run }))),
      h("div", { class: panels.length > 1 ? "side-by-side" : "" }, panels.map((one) => one.element)));
  })().catch((error) => refill(body, h("p", { class: "problem" }, error.message)));
  return () => {
    left = true;
    for (const one of panels) one.stop();
  };
}
