// The members of the coverage set that a run's pairs hold, and the slack of its constraints.

import { api, poll } from "../api.js";
import { slackChart } from "../charts.js";
import { h, plural, refill, select, short } from "../dom.js";
import { address, runName } from "../words.js";

const CONSTRAINTS = [
  ["other_best_response", "against other best responses", 0, false],
  ["other_teammate", "against other teammates", 4, true],
];

function pairs(run) {
  const size = run.covers?.length || run.population_size || 0;
  return Array.from({ length: size }, (_, i) => {
    const member = run.covers?.[i] ?? null;
    const same = member === null ? -1 : run.covers.indexOf(member);
    return { i, member, duplicate: same >= 0 && same < i ? same : null };
  });
}

function verdict(run, found) {
  const duplicates = found.filter((pair) => pair.duplicate !== null).length;
  const size = run.coverage_size;
  const count = new Set(found.map((pair) => pair.member).filter(Boolean)).size;
  const covered = size ? `The population covers ${count} of the ${size} members of the coverage set of ${run.game}` : `The population follows ${plural(count, "kind")} of teammates in ${run.game}`;
  const violated = run.constraints_violated;
  return `${covered}${duplicates ? `; ${plural(duplicates, "pair")} duplicate${duplicates === 1 ? "s" : ""} another` : ""}. ${
    violated === null || violated === undefined ? "" : violated ? `${plural(violated, "constraint")} ${violated === 1 ? "is" : "are"} violated.` : "All constraints hold."}`;
}

function pairTable(run, found) {
  return h("table", { class: "stack" },
    h("caption", {}, "The member of the coverage set that each pair holds, and its conventions in self-play"),
    h("thead", {}, h("tr", {}, ["Pair", "Covers", "Teammate", "Best response"].map((text) => h("th", { scope: "col" }, text)))),
    h("tbody", {}, found.map(({ i, member, duplicate }) =>
      h("tr", {}, h("th", { scope: "row" }, `Pair ${i + 1}`),
        h("td", { "data-label": "Covers" }, h("div", {}, member ? h("span", { class: `chip${duplicate === null ? " found" : " again"}` }, member) : h("span", { class: "chip" }, "none"),
          duplicate !== null && ` duplicate of pair ${duplicate + 1}`)),
        h("td", { "data-label": "Teammate" }, h("div", {}, run.conventions?.[i] ?? "–", Boolean(run.words?.[i]) && [" ", h("span", { class: "chip" }, run.words[i])])),
        h("td", { "data-label": "Best response" }, h("div", {}, run.best_response_conventions?.[i] ?? "–"))))));
}

function memberList(names, found) {
  if (!names.length) return null;
  return h("div", {}, h("h3", {}, "The coverage set"), h("ul", { class: "chips" }, names.map((name) => {
    const by = found.filter((pair) => pair.member === name).map((pair) => pair.i + 1);
    return h("li", {}, h("span", { class: `chip${by.length ? " found" : " missing"}` }, name), by.length ? ` pair ${by.join(", ")}` : " not found");
  })));
}

function slack(run) {
  const { env_steps: x, gaps } = run.curves;
  const size = run.gaps?.other_best_response?.length ?? 0;
  if (!size) return h("p", { class: "quiet" }, "The log of this run has no constraints.");
  const cell = (i, j) => {
    if (i === j) return h("td", { class: "empty" });
    const lines = CONSTRAINTS.map(([name, , tone, dashed]) => ({ tone, dashed, values: gaps.map((entry) => entry?.[name]?.[i]?.[j] ?? null) }));
    const now = CONSTRAINTS.map(([name]) => run.gaps[name]?.[i]?.[j] ?? null);
    const bad = now.some((value) => value !== null && value < 0);
    return h("td", {}, slackChart(x, lines, `Pair ${i + 1} against pair ${j + 1}: slack now ${now.map((value) => short(value)).join(" and ")}${bad ? ", violated" : ""}`),
      h("span", { class: bad ? "problem" : "quiet" }, now.map((value) => short(value, 2)).join(" / "), bad && " violated"));
  };
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Constraint slack of each pair" },
    h("p", { class: "quiet" }, `Constraint slack over training: self-play minus cross-play minus the margin of ${short(run.margin)}. Constraints below the line, in red, are violated. Numbers are the latest values.`),
    h("table", { class: "slacks" },
      h("thead", {}, h("tr", {}, h("td", {}), Array.from({ length: size }, (_, j) => h("th", { scope: "col" }, `against pair ${j + 1}`)))),
      h("tbody", {}, Array.from({ length: size }, (_, i) => h("tr", {}, h("th", { scope: "row" }, `pair ${i + 1}`), Array.from({ length: size }, (_, j) => cell(i, j)))))),
    h("ul", { class: "legend" }, CONSTRAINTS.map(([, text, tone, dashed]) => h("li", {}, h("span", { class: `swatch tone-${tone}${dashed ? " dashed" : ""}` }), text))));
}

export function show(main, fields) {
  let leave = () => {};
  let left = false;
  const chooser = h("div", { class: "choices" });
  const place = h("div", {}, h("p", { class: "quiet" }, "Loading runs."));
  main.append(h("p", { class: "lead" }, "A population covers a game if every member of the coverage set is held by a pair. Two pairs with the same member are duplicates: one of them is wasted."), chooser, place);
  (async () => {
    const usable = (await api.runs()).runs.filter((run) => run.state !== "damaged");
    if (left) return;
    if (!usable.length) return refill(place, h("p", {}, "There are no runs to show yet."));
    const run = usable.find((one) => one.id === fields.get("run")) ?? usable[0];
    chooser.append(select("Run", usable.map((one) => ({ value: one.id, text: runName(one) })), run.id, (id) => (location.hash = address("coverage", { run: id }))));
    const members = h("div", {});
    let newest = null;
    let names = [];
    const draw = () => {
      const found = pairs(newest);
      refill(members, memberList(names, found));
      refill(place, h("section", { class: "panel" }, h("h2", {}, runName(newest)), h("p", { class: "verdict" }, verdict(newest, found)), members, pairTable(newest, found)),
        h("section", { class: "panel" }, h("h2", {}, "Constraints"), slack(newest)));
    };
    leave = poll((signal) => api.run(run.id, signal), (details) => {
      newest = details;
      if (details.state === "damaged") refill(place, h("p", { class: "problem" }, details.message));
      else draw();
    }, (error) => refill(place, h("p", { class: "problem" }, error.message)));
    // Names of missing members come from the environment, which needs JAX, so they may arrive later.
    names = (await api.board(run.id)).board.members;
    if (!left && newest && newest.state !== "damaged") draw();
  })().catch((error) => { if (!place.querySelector(".panel")) refill(place, h("p", { class: "problem" }, error.message)); });
  return () => {
    left = true;
    leave();
  };
}
