// Be the partner: choose with whom, play a trial, see how it went.

import { api, newSeed } from "../api.js";
import { announce, h, plural, refill, select } from "../dom.js";
import { partnerOptions } from "../partners.js";
import { createTableTop, replayLink } from "../table-top.js";
import { runName } from "../words.js";

const KEPT = "coverset-trial"; // the trial of this tab, so that a reload goes on with it

export function show(main, fields) {
  let left = false;
  let tableTop = null;
  const lead = h("p", { class: "lead" }, "You and a trained partner play several episodes. An ad hoc agent remembers the episodes before and adapts to you: play the same convention again and see whether it follows.");
  const body = h("div", {}, h("p", { class: "quiet" }, "Reading the runs."));
  main.append(lead, body);

  const fail = (error) => refill(body, h("p", { class: "problem", role: "alert" }, error.message));

  function sitDown(trial) {
    sessionStorage.setItem(KEPT, trial.trial);
    const after = h("div", {});
    const leave = () => {
      sessionStorage.removeItem(KEPT);
      tableTop?.stop();
      setUp();
    };
    tableTop?.stop();
    tableTop = createTableTop(trial, {
      onleave: leave,
      onlost: (sentence) => { leave(); announce(sentence); },
      onover: ({ recording }) => {
        sessionStorage.removeItem(KEPT);
        const again = h("button", { type: "button", class: "primary", onclick: () => begin(trial.run, trial.partner.reference, trial.planned) }, "Play again");
        refill(after, h("section", { class: "panel done" }, h("h2", {}, "The trial is over"), h("p", {}, "Its moves are stored with the runs, and nothing else about you."),
          h("p", { class: "links" }, again, recording && replayLink(recording), h("a", { href: "#/play", onclick: leave }, "Choose another partner"))));
        again.focus();
      },
    });
    refill(body, tableTop.element, after);
    tableTop.start();
    announce("The trial begins.");
  }

  async function begin(run, partner, episodes) {
    refill(body, h("p", { class: "quiet", role: "status" }, "Your partner gets ready. The first time takes a few seconds."));
    try {
      const trial = await api.startTrial({ run, partner, episodes, seed: newSeed() });
      if (!left) sitDown(trial);
    } catch (error) {
      if (!left) await setUp(error.message);
    }
  }

  async function setUp(sentence) {
    const usable = (await api.runs()).runs.filter((run) => run.state !== "damaged");
    if (left) return;
    if (!usable.length) return refill(body, h("p", {}, "There are no runs to play with yet."));
    const chosen = usable.find((run) => run.id === fields.get("run")) ?? usable.find((run) => run.agents.some((agent) => agent.playable)) ?? usable.find((run) => run.watchable) ?? usable[0];
    const partner = h("div", { class: "partner-choice" });
    const count = h("input", { type: "number", min: 1, max: 20, value: 5, required: true });
    const start = h("button", { type: "submit", class: "primary" }, "Start the trial");
    let run = chosen.id;
    const form = h("form", { class: "panel setup", onsubmit: (event) => {
      event.preventDefault();
      const value = form.querySelector("[name=partner]")?.value;
      if (value) begin(run, value, Number(count.value));
    } },
      h("h2", {}, "Who plays?"),
      sentence && h("p", { class: "problem", role: "alert" }, sentence),
      select("Run", usable.map((one) => ({ value: one.id, text: runName(one) })), run, (id) => { run = id; offer(); }),
      partner,
      h("label", { class: "field narrow" }, h("span", {}, "Episodes"), count),
      start);
    refill(body, form);
    async function offer() {
      const asked = run;
      const details = await api.run(asked);
      const draw = (heuristics, note) => {
        const before = partner.querySelector("select")?.value;
        const options = partnerOptions(details, heuristics);
        const value = options.some((option) => option.value === before) ? before : options[0]?.value;
        start.disabled = !options.length;
        refill(partner, options.length ? select("Partner", options, value, () => {}, { name: "partner", "data-key": "partner" }) : h("p", {}, "There is nobody to play with yet."),
          h("p", { class: "quiet" }, note));
      };
      draw([], "The heuristics come as soon as JAX has started.");
      try {
        const { heuristics } = await api.board(asked);
        if (asked === run && !left) draw(heuristics, `${plural(heuristics.length, "heuristic")} of this game can be played with, too.`);
      } catch (error) {
        if (asked === run && !left) draw([], error.message);
      }
    }
    await offer();
  }

  (async () => {
    const kept = sessionStorage.getItem(KEPT);
    const trial = kept && !fields.get("run") && (await api.trial(kept).catch(() => null));
    if (left) return;
    if (trial && !trial.over) sitDown(trial);
    else await setUp();
  })().catch(fail);
  return () => {
    left = true;
    tableTop?.stop();
  };
}
