// Training metrics of one run, updated during training.

import { api, poll } from "../api.js";
import { lineChart, smallMultiples } from "../charts.js";
import { h, plural, refill } from "../dom.js";
import { STATES, address, runName } from "../words.js";

// Titles, units and names of parts of known fields of a method; other fields are titled by their names.
const FIELDS = {
  multipliers: ["Lagrange multipliers", "largest of each pair", { other_best_response: "against other best responses", other_teammate: "against other teammates" }],
};

const isMatrix = (values) => Array.isArray(values.find((value) => value !== null)?.[0]);
const largest = (row) => (row ? Math.max(...row.filter((value) => value !== null)) : null);
const finite = (value) => (Number.isFinite(value) ? value : null);

// A number gives one line, a vector one per entry.
function partLines(values, part, number) {
  const sample = values.find((value) => value !== null);
  const dashed = number > 0;
  if (!Array.isArray(sample)) return [{ name: part || "value", tone: number, dashed, values }];
  return sample.map((_, i) => ({ name: `pair ${i + 1}`, tone: i, dashed, unlisted: dashed, values: values.map((value) => value?.[i] ?? null) }));
}

// Matrices are drawn as small multiples: a chart for each row, with the largest entry of every part.
function rowPanels(parts, names) {
  const entries = Object.entries(parts);
  const count = entries[0][1].find((value) => value !== null).length;
  return Array.from({ length: count }, (_, i) => ({
    name: `pair ${i + 1}`,
    series: entries.map(([part, values], number) => ({ name: names[part] ?? part, tone: number ? 4 : 0, dashed: number > 0, values: values.map((value) => finite(largest(value?.[i]))) })),
  }));
}

function methodChart(name, parts, steps) {
  const [title, unit, names] = FIELDS[name] ?? [name.replaceAll("_", " "), "", {}];
  if (Object.values(parts).every(isMatrix)) return smallMultiples(title, steps, rowPanels(parts, names), { unit: unit || "largest entry of each row" });
  const lines = Object.entries(parts).filter(([, values]) => !isMatrix(values)).flatMap(([part, values], number) => partLines(values, part, number));
  return lineChart(title, steps, lines, { zero: true, unit });
}

// Members found over training. Where the game names none, kinds are counted once, at the end.
function coverageChart(run) {
  const { env_steps: steps, coverage_found: found } = run.curves;
  if (run.coverage_size) return lineChart(`Members of the coverage set found, of ${run.coverage_size}`, steps, [{ name: "found", values: found, tone: 2 }], { zero: true, top: run.coverage_size });
  if (found.some((count) => count > 0)) return lineChart("Members of the coverage set found", steps, [{ name: "found", values: found, tone: 2 }], { zero: true, top: Math.max(...found) });
  return null;
}

const kinds = (run) =>
  run.state === "finished" && !run.coverage_size && run.coverage_found ? `Its teammates are of ${plural(run.coverage_found, "kind")}. ` : "";

function charts(run) {
  const { curves } = run;
  if (!curves?.env_steps.length) return h("p", {}, "No metrics are logged yet.");
  return h("div", { class: "charts" },
    lineChart("Mean return while training", curves.env_steps, [
      { name: "self-play", values: curves.self_play_return, tone: 0 },
      { name: "cross-play", values: curves.cross_play_return, tone: 4 },
    ], { zero: true }),
    coverageChart(run),
    Object.entries(curves.method).map(([name, parts]) => methodChart(name, parts, curves.env_steps)),
    run.agents.filter((agent) => agent.curves?.env_steps.length).map((agent) =>
      lineChart(`Ad hoc agent ${agent.name}: mean return while training`, agent.curves.env_steps, [{ name: agent.name, values: agent.curves.mean_return, tone: 3 }], { zero: true })),
  );
}

export function show(main, fields) {
  const place = h("div", {}, h("p", { class: "quiet" }, "Loading the run."));
  const id = fields.get("run") ?? "";
  main.append(place);
  return poll((signal) => api.run(id, signal), (run) => {
    const links = [["cross-play", "Watch pairs"], ["coverage", "See coverage"], ["play", "Play"]];
    refill(place,
      h("p", { class: "lead" }, `${runName(run)}: ${STATES[run.state]}. ${kinds(run)}${run.message ?? ""}`),
      run.advice && h("p", { class: "hint" }, run.advice),
      (run.probes ?? []).map((probe) => h("p", {}, `${probe.name}: ${probe.sentence ?? ""}`)),
      run.state !== "damaged" && h("p", { class: "links" }, links.map(([page, text]) => h("a", { href: address(page, { run: id }), "data-key": page }, text))),
      run.state !== "damaged" && charts(run));
  }, (error) => refill(place, h("p", { class: "problem" }, error.message)));
}
