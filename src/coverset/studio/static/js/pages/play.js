// Play a trial: choose a partner, play, see the score.

import { api, newSeed } from "../api.js";
import { announce, h, plural, refill, select } from "../dom.js";
import { otherTeamOptions, partnerOptions, seatOptions } from "../partners.js";
import { createTrialView, oracleName, replayLink } from "../trial-view.js";
import { beliefTable, verdict } from "../verdict.js";
import { runName } from "../words.js";

const KEPT = "coverset-trial"; // the trial of this tab, so that a reload continues it

export function show(main, fields) {
  let left = false;
  let trialView = null;
  const lead = h("p", { class: "lead" }, "Play several episodes with a trained partner. An ad hoc agent with a memory should adapt to you: repeat a convention and see whether it follows. After the trial you are told what it believed.");
  const body = h("div", {}, h("p", { class: "quiet" }, "Loading runs."));
  main.append(lead, body);

  const fail = (error) => refill(body, h("p", { class: "problem", role: "alert" }, error.message));

  function showTrial(trial) {
    sessionStorage.setItem(KEPT, trial.trial);
    const after = h("div", {});
    const leave = () => {
      sessionStorage.removeItem(KEPT);
      trialView?.stop();
      setUp();
    };
    trialView?.stop();
    trialView = createTrialView(trial, {
      onleave: leave,
      onlost: (sentence) => { leave(); announce(sentence); },
      onover: ({ recording, beliefs }, played) => {
        sessionStorage.removeItem(KEPT);
        const again = h("button", { type: "button", class: "primary", onclick: () => begin(messageFor(trial)) }, "Play again");
        const told = h("div", {});
        const said = verdict(played.scores, { adapts: trial.partner.reference.startsWith("agent:"), commonReward: trial.board.common_reward, oracle: oracleName(trial) });
        refill(after, h("section", { class: "panel done" }, h("h2", {}, "The trial is over"), h("p", { class: "verdict" }, said.join(" ")), told,
          h("p", { class: "quiet" }, "The moves are stored with the runs; nothing else about you is stored."),
          h("p", { class: "links" }, again, recording && replayLink(recording), h("a", { href: "#/play", onclick: leave }, "Choose another partner"))));
        if (beliefs) api.run(trial.run).then((run) => run.conventions ?? [], () => []).then((words) => refill(told, beliefTable(beliefs, words, played.scores, played.did)));
        again.focus({ preventScroll: true });
        announce(`The trial is over. ${said.join(" ")}`);
        after.scrollIntoView({ block: "nearest" });
      },
    });
    lead.hidden = true;
    refill(body, trialView.element, after);
    trialView.start();
    announce("The trial begins.");
  }

  // seat and team are left out where the server knows them.
  const messageFor = ({ board, run, partner, team, seat, planned }) =>
    ({ run, partner: partner.reference, episodes: planned, ...(board.num_seats > 2 && { seat }), ...(team && { team: team.reference }) });

  async function begin(message) {
    refill(body, h("p", { class: "quiet", role: "status" }, "Loading your partner. The first time takes a few seconds."));
    try {
      const trial = await api.startTrial({ ...message, seed: newSeed() });
      if (!left) showTrial(trial);
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
    const others = h("div", { class: "partner-choice" }); // behind the button: who else plays, and where
    const count = h("input", { type: "number", min: 1, max: 20, value: 5, required: true });
    const start = h("button", { type: "submit", class: "primary" }, "Start the trial");
    let run = chosen.id;
    const form = h("form", { class: "panel setup", onsubmit: (event) => {
      event.preventDefault();
      const chosenIn = (name) => form.querySelector(`[name=${name}]`)?.value;
      const [value, team, seat] = ["partner", "team", "seat"].map(chosenIn);
      if (value) begin({ run, partner: value, episodes: Number(count.value), ...(team && { team }), ...(seat && { seat: Number(seat) }) });
    } },
      h("h2", {}, "Choose a partner"),
      sentence && h("p", { class: "problem", role: "alert" }, sentence),
      h("div", { class: "choices" },
        select("Run", usable.map((one) => ({ value: one.id, text: runName(one) })), run, (id) => { run = id; offer(); }),
        h("label", { class: "field narrow" }, h("span", {}, "Episodes"), count)),
      partner,
      h("div", { class: "go" }, start),
      others);
    lead.hidden = false;
    refill(body, form);
    async function offer() {
      const asked = run;
      const details = await api.run(asked);
      const draw = (heuristics, note, board = null) => {
        const options = partnerOptions(details, heuristics);
        // A list of options with the choice that was made before, if it is still there; nothing without options.
        const choose = (name, label, options, onchange) => {
          const before = form.querySelector(`[name=${name}]`)?.value;
          const value = options.some((option) => option.value === before) ? before : options[0]?.value;
          return { value, field: options.length > 0 && select(label, options, value, onchange, { name, "data-key": name }) };
        };
        const again = () => {
          others.replaceChildren(); // the defaults follow the partner
          draw(heuristics, note, board);
        };
        const whom = choose("partner", "Partner", options, again);
        start.disabled = !options.length;
        const hadFocus = !partner.firstChild && document.activeElement?.matches("main, body");
        const chosen = [
          choose("team", "The other teammates", otherTeamOptions(board, details, heuristics, whom.value), () => {}).field,
          choose("seat", "Your seat", seatOptions(board, details, whom.value), () => {}).field,
        ];
        refill(partner, whom.field || h("p", {}, "There is no partner to play with yet."));
        refill(others, chosen, h("p", { class: "quiet" }, note));
        if (hadFocus) partner.querySelector("select")?.focus({ preventScroll: true });
      };
      draw([], "Heuristics are listed once JAX has started.");
      try {
        const { heuristics, board } = await api.board(asked);
        if (asked === run && !left) draw(heuristics, `${plural(heuristics.length, "heuristic")} of this game can also be chosen.`, board);
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
    if (trial && !trial.over) showTrial(trial);
    else await setUp();
  })().catch(fail);
  return () => {
    left = true;
    trialView?.stop();
  };
}
