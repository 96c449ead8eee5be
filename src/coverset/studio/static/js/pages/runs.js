// The overview: every run below the directory, updated during training.

import { api, poll } from "../api.js";
import { sparkline } from "../charts.js";
import { h, percent, plural, refill, short } from "../dom.js";
import { STATES, address, methodName } from "../words.js";

const last = (values) => values?.findLast((value) => value !== null) ?? null;

function progress(item, label) {
  const share = item.total_steps ? Math.min(1, item.env_steps / item.total_steps) : 0;
  if (item.state === "measuring" || item.state === "waiting") return STATES[item.state];
  return item.state === "finished"
    ? `${STATES.finished}, ${item.env_steps.toLocaleString("en")} steps`
    : [h("progress", { max: 1, value: share, "aria-label": label }), ` ${STATES[item.state]}, ${percent(share)}`];
}

function coverage(run) {
  const { coverage_found: found, coverage_size: size, state } = run;
  if (found === null || found === undefined) return state === "finished" ? "–" : "not measured yet";
  if (size) return `${found} of ${size}`;
  return state === "finished" ? plural(found, "kind") : found ? `${found} so far` : "not measured yet";
}

function agents(run) {
  if (!run.agents.length) return h("span", { class: "quiet" }, "no agent yet");
  return h("ul", { class: "plain" }, run.agents.map((agent) =>
    h("li", {}, h("b", {}, agent.name), agent.seat ? ` (seat ${agent.seat}) ` : " ",
      agent.state === "damaged" ? agent.message
        : agent.mean_return !== null ? `${short(agent.mean_return)}${agent.oracle_fraction !== null ? `, ${percent(agent.oracle_fraction)} of the oracle` : ""}`
        : agent.state === "finished" ? "not evaluated yet" : progress(agent, `Training of ${agent.name}`)),
  ));
}

function row(run) {
  const cell = (label, ...content) => h("td", { "data-label": label }, h("div", {}, content));
  const name = `seed ${run.seed}`;
  if (run.state === "damaged")
    return h("tr", { class: "damaged" }, h("th", { scope: "row" }, name), h("td", { colspan: 5 }, `This run cannot be read: ${run.message}`));
  const [own, cross] = [last(run.returns.self_play), last(run.returns.cross_play)];
  const link = (page, text) => h("a", { href: address(page, { run: run.id }), "data-key": `${page}-${run.id}`, "aria-label": `${text}: ${run.group}, ${name}` }, text);
  return h(
    "tr",
    {},
    h("th", { scope: "row" }, name),
    cell("Training", progress(run, `Training of ${name}`), run.message && h("p", { class: "problem" }, run.message),
      run.state === "stopped" && h("p", { class: "quiet" }, "Continue with: coverset generate … --resume")),
    cell("Return", own === null ? "–" : [sparkline([{ values: run.returns.self_play, tone: 0 }, { values: run.returns.cross_play, tone: 4 }],
      `Latest self-play ${short(own)}, cross-play ${short(cross)}`), h("span", { class: "pairs" }, h("span", { class: "tone-0" }, `self ${short(own)}`), " ", h("span", { class: "tone-4" }, `cross ${short(cross)}`))]),
    cell("Coverage found", coverage(run)),
    cell("Robustness", agents(run)),
    cell("Details", h("div", { class: "links" }, link("run", "Curves"), link("cross-play", "Cross-play"), link("coverage", "Coverage"), link("play", "Play"))),
  );
}

function group(name, runs) {
  const known = runs.find((run) => run.game) ?? {};
  return h(
    "section",
    { class: "panel" },
    h("h2", {}, known.game ? `${known.game}, ${methodName(known.method)}` : name, " ", h("small", {}, `${name}${known.preset ? `, preset ${known.preset}` : ""}`)),
    h("table", { class: "runs" },
      h("thead", {}, h("tr", {}, ["Seed", "Training", "Return", "Coverage found", "Robustness", "Details"].map((text) => h("th", { scope: "col" }, text)))),
      h("tbody", {}, runs.map(row))),
  );
}

function nothing() {
  return h("section", { class: "panel" }, h("h2", {}, "No runs yet"),
    h("p", {}, "This directory has no runs. Create some, for example with"), h("pre", {}, "coverset generate matrix --out DIR/matrix"),
    h("p", {}, "They appear here as soon as they start."));
}

export function show(main) {
  const intro = h("p", { class: "lead" }, "Teammates trained to cover the conventions of a game. ",
    h("b", {}, "Curves"), " shows the training metrics, ", h("b", {}, "Cross-play"), " lets you watch any pair, ",
    h("b", {}, "Coverage"), " shows which conventions were found, and in ", h("b", {}, "Play"), " you play with them.");
  const count = h("p", { class: "quiet" }, "Loading runs.");
  const place = h("div", {});
  main.append(intro, count, place);
  return poll(api.runs, ({ directory, runs }) => {
    const training = runs.filter((run) => run.state === "training").length;
    count.textContent = `${plural(runs.length, "run")} in ${directory}${training ? `, ${training} training now` : ""}.`;
    refill(place, runs.length ? Object.entries(Object.groupBy(runs, (run) => run.group)).map(([name, some]) => group(name, some)) : nothing());
  }, (error) => (count.textContent = error.message));
}
