// How the training of one run went, or goes.

import { api, follow } from "../api.js";
import { lineChart } from "../charts.js";
import { h, refill } from "../dom.js";
import { STATES, address, runName } from "../words.js";

const column = (matrices, name, i, j) => matrices.map((entry) => entry?.[name]?.[i]?.[j] ?? null);

// A line for each pair (i, j): colour is the pair that is guarded.
function multipliers(curves) {
  const size = curves.multipliers.find((entry) => entry?.other_best_response)?.other_best_response.length ?? 0;
  const lines = [];
  for (let i = 0; i < size; i += 1)
    for (let j = 0; j < size; j += 1)
      if (i !== j)
        for (const [name, dashed] of [["other_best_response", false], ["other_teammate", true]])
          lines.push({ name: `pair ${i + 1}`, tone: i, dashed, unlisted: dashed || j !== (i ? 0 : 1), values: column(curves.multipliers, name, i, j) });
  return lines;
}

function charts(run) {
  const { curves } = run;
  if (!curves?.env_steps.length) return h("p", {}, "Nothing is logged yet.");
  const pushing = multipliers(curves);
  return h("div", { class: "charts" },
    lineChart("Mean return while training", curves.env_steps, [
      { name: "self-play", values: curves.self_play_return, tone: 0 },
      { name: "cross-play", values: curves.cross_play_return, tone: 4 },
    ], { zero: true }),
    lineChart("Members of the coverage set found", curves.env_steps, [{ name: run.coverage_size ? `of ${run.coverage_size}, found` : "found", values: curves.coverage_found, tone: 2 }], { zero: true }),
    pushing.length
      ? lineChart("Lagrange multipliers", curves.env_steps, pushing, { zero: true, unit: "by the pair they guard: solid against other best responses, dashed against other teammates" })
      : h("figure", {}, h("figcaption", {}, "Lagrange multipliers"), h("p", { class: "quiet" }, `${run.method} has no multipliers.`)),
    run.agents.filter((agent) => agent.curves?.env_steps.length).map((agent) =>
      lineChart(`Ad hoc agent ${agent.learner}: mean return while training`, agent.curves.env_steps, [{ name: agent.learner, values: agent.curves.mean_return, tone: 3 }], { zero: true })),
  );
}

export function show(main, fields) {
  const place = h("div", {}, h("p", { class: "quiet" }, "Reading the run."));
  const id = fields.get("run") ?? "";
  main.append(place);
  return follow((signal) => api.run(id, signal), (run) => {
    const links = [["cross-play", "Watch them play"], ["coverage", "See what is covered"], ["play", "Play with them"]];
    refill(place,
      h("p", { class: "lead" }, `${runName(run)}: ${STATES[run.state]}. ${run.message ?? ""}`),
      run.state !== "damaged" && h("p", { class: "links" }, links.map(([page, text]) => h("a", { href: address(page, { run: id }), "data-key": page }, text))),
      run.state !== "damaged" && charts(run));
  }, (error) => refill(place, h("p", { class: "problem" }, error.message)));
}
