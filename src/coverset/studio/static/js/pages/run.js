// Training metrics of one run, updated during training.

import { api, poll } from "../api.js";
import { lineChart } from "../charts.js";
import { h, refill } from "../dom.js";
import { STATES, address, runName } from "../words.js";

// Titles and units of known fields of a method; other fields are titled by their names.
const FIELDS = {
  multipliers: ["Lagrange multipliers", "coloured by pair: solid against other best responses, dashed against other teammates"],
};
const CONSTRAINTS = ["other_best_response", "other_teammate"];

// Lines of one part of a field: a number gives one line, a vector one per entry, a matrix one per entry with the colour
// of its row. Constraints have no diagonal.
function partLines(values, part, number) {
  const sample = values.find((value) => value !== null);
  const dashed = number > 0;
  if (!Array.isArray(sample)) return [{ name: part || "value", tone: number, dashed, values }];
  const lines = [];
  sample.forEach((row, i) => {
    const columns = Array.isArray(row) ? row.map((_, j) => j).filter((j) => i !== j || !CONSTRAINTS.includes(part)) : [null];
    columns.forEach((j, place) =>
      lines.push({ name: `pair ${i + 1}`, tone: i, dashed, unlisted: dashed || place > 0, values: values.map((value) => (j === null ? value?.[i] : value?.[i]?.[j]) ?? null) }));
  });
  return lines;
}

function methodChart(name, parts, steps) {
  const [title, unit] = FIELDS[name] ?? [name.replaceAll("_", " "), ""];
  const lines = Object.entries(parts).flatMap(([part, values], number) => partLines(values, part, number));
  return lineChart(title, steps, lines, { zero: true, unit });
}

function charts(run) {
  const { curves } = run;
  if (!curves?.env_steps.length) return h("p", {}, "No metrics are logged yet.");
  return h("div", { class: "charts" },
    lineChart("Mean return while training", curves.env_steps, [
      { name: "self-play", values: curves.self_play_return, tone: 0 },
      { name: "cross-play", values: curves.cross_play_return, tone: 4 },
    ], { zero: true }),
    lineChart("Members of the coverage set found", curves.env_steps, [{ name: run.coverage_size ? `of ${run.coverage_size}, found` : "found", values: curves.coverage_found, tone: 2 }], { zero: true }),
    Object.entries(curves.method).map(([name, parts]) => methodChart(name, parts, curves.env_steps)),
    run.agents.filter((agent) => agent.curves?.env_steps.length).map((agent) =>
      lineChart(`Ad hoc agent ${agent.learner}: mean return while training`, agent.curves.env_steps, [{ name: agent.learner, values: agent.curves.mean_return, tone: 3 }], { zero: true })),
  );
}

export function show(main, fields) {
  const place = h("div", {}, h("p", { class: "quiet" }, "Loading the run."));
  const id = fields.get("run") ?? "";
  main.append(place);
  return poll((signal) => api.run(id, signal), (run) => {
    const links = [["cross-play", "Watch pairs"], ["coverage", "See coverage"], ["play", "Play"]];
    refill(place,
      h("p", { class: "lead" }, `${runName(run)}: ${STATES[run.state]}. ${run.message ?? ""}`),
      run.state !== "damaged" && h("p", { class: "links" }, links.map(([page, text]) => h("a", { href: address(page, { run: id }), "data-key": page }, text))),
      run.state !== "damaged" && charts(run));
  }, (error) => refill(place, h("p", { class: "problem" }, error.message)));
}
