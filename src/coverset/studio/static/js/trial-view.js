// The view of a trial: board, keys and buttons for the person's moves, score.

import { api } from "./api.js";
import { createBoard } from "./boards/index.js";
import { announce, h, refill, short } from "./dom.js";
import { describeSeat, seatName, seatNames, showReturns } from "./seats.js";
import { ending } from "./viewer.js";
import { address } from "./words.js";

const MOST_QUEUED = 3;
const FORCED_MILLISECONDS = 600; // how long a step in which the person has no choice is shown
const KEY_NAMES = { " ": "space", ArrowUp: "↑", ArrowDown: "↓", ArrowLeft: "←", ArrowRight: "→" };
const NEXT_KEYS = ["Enter", "n"];
const PASS = 0;

// trial: the server's description. onover is called after the last episode, onlost if the trial has expired.
export function createTrialView(trial, { onover, onlost, onleave }) {
  const { board, seat } = trial;
  const drawing = createBoard(board);
  const actions = board.actions[seat];
  const arrows = ["up", "down", "left", "right"].every((name) => actions.some((action) => action.name === name));
  const names = seatNames(board, seat, "You");
  const letters = names.map((_, number) => (number === seat ? "you" : board.num_seats > 2 ? String(number + 1) : ""));
  const oneStep = board.kind === "table" && board.horizon === 1; // has no first frame worth showing
  let { step, over } = trial;
  const scores = [...trial.scores];
  const did = []; // the convention that the person followed in each episode that this page has shown
  let frame = null;
  let choice = null; // the frame in which the person chooses
  let pending = []; // frames that are still to be shown
  let timer = null;
  let last = trial; // the latest answer
  let queued = 0;
  let line = Promise.resolve();

  const status = h("p", { class: "status", id: "trial-status" });
  const words = h("p", { class: "quiet words" });
  const total = h("p", { class: "total" });
  const list = h("ul", { class: "scores plain" });
  const problem = h("p", { class: "problem", role: "alert" });
  const oracleNote = h("p", { class: "quiet" }, `The oracle is ${oracleName(trial)}.`);
  const nextButton = h("button", { type: "button", class: "primary next", onclick: startNextEpisode }, "Next episode (Enter)");
  const passButton = h("button", { type: "button", class: "primary next", hidden: true, onclick: () => act(PASS) }, "Pass");
  const pad = h("div", { class: arrows ? "pad arrows" : actions.length > 9 ? "pad many" : "pad", role: "group", "aria-label": "Your actions" }, actions.map((action, number) =>
    h("button", { type: "button", class: `act act-${action.name.replace(/\W/g, "-")}`, onclick: () => act(number) }, action.name,
      action.key && h("kbd", {}, KEY_NAMES[action.key] ?? action.key))));
  const stage = h("div", { class: "stage", tabindex: 0, role: "application", "aria-label": "The game. Use the keys shown on the buttons below.", "aria-describedby": "trial-status" }, drawing.element);

  const view = { names, letters, hidden: [] };
  const waitsForNext = () => Boolean(frame.ended && pending.length);
  const canAct = () => !over && !pending.length;
  const mustPass = () => canAct() && choice.legal?.every((legal) => !legal);
  const isLegal = (action) => canAct() && (choice.legal?.[action] ?? true);

  function draw() {
    drawing.show(frame, view);
    status.textContent = `Episode ${episodeNumber()} of ${trial.planned}, step ${frame.time} of at most ${board.horizon}. ${describeState()}`;
    words.textContent = drawing.describe(frame, view);
    const earned = scores.reduce((sum, score) => sum + score.return, 0);
    const possible = scores.reduce((sum, score) => sum + (score.oracle ?? 0), 0);
    total.replaceChildren("Score ", h("b", { id: "score" }, short(earned, 4)), possible ? ` of ${short(possible, 4)}` : "");
    refill(list, scores.map((score, n) => h("li", {}, `Episode ${n + 1}: ${ofOracle(score)}`, !board.common_reward && h("small", { class: "quiet" }, ` (${showReturns(score.returns, names)})`),
      score.oracle > 0 && h("meter", { min: 0, max: score.oracle, value: Math.max(0, score.return), "aria-hidden": "true" }))));
    nextButton.hidden = !waitsForNext();
    passButton.hidden = !mustPass();
    [...pad.children].forEach((button, number) => (button.disabled = !isLegal(number)));
    oracleNote.hidden = scores.length > 0 && scores.every((score) => score.oracle === null);
  }

  const ofOracle = (score) => `${short(score.return)}${score.oracle === null ? "" : ` of ${short(score.oracle)}`}`;

  const episodeNumber = () => Math.min(trial.planned, frame.ended && !canAct() ? scores.length : scores.length + 1);

  function describeState() {
    if (frame.ended) return `${ending(frame, names)}${board.common_reward ? `Return ${ofOracle(frame.score)}` : `Returns: ${showReturns(frame.score.returns, names)}`}.`;
    if (!frame.legal) return "";
    return canAct() && !mustPass() ? "Your turn." : "You have no choice in this step.";
  }

  // Show the first of the pending frames, and the others after it: at once or, after an ended episode, on request.
  function advance() {
    clearTimeout(timer);
    frame = choice = pending.shift();
    if (frame.score) scores.push(frame.score);
    if (frame.ended) did[scores.length - 1] = frame.conventions?.[seat] ?? null;
    if (frame.ended && oneStep && pending.length === 1) choice = pending.shift();
    draw();
    if (!pending.length || frame.ended) announce(`${status.textContent} ${words.textContent}`);
    if (waitsForNext()) nextButton.focus({ preventScroll: true });
    else if (pending.length) timer = setTimeout(advance, FORCED_MILLISECONDS);
    else if (over) onover(last, { scores, did });
  }

  function startNextEpisode() {
    if (!waitsForNext()) return;
    advance();
    stage.focus({ preventScroll: true });
  }

  function act(action) {
    if (over || pending.length || queued >= MOST_QUEUED) return;
    queued += 1;
    line = line.then(() => send(action)).finally(() => (queued -= 1));
  }

  async function send(action) {
    if (!isLegal(action) && !(mustPass() && action === PASS)) return;
    try {
      last = await api.move(trial.trial, step, action);
      problem.textContent = "";
      ({ step, over } = last);
      pending = last.frames;
      advance();
    } catch (error) {
      await recover(error);
    }
  }

  async function recover(error) {
    problem.textContent = error.message;
    if (error.status === 404) onlost(error.message);
    if (error.status !== 409) return;
    const now = await api.trial(trial.trial).catch(() => null);
    if (!now) return;
    clearTimeout(timer);
    ({ step, over } = last = now);
    scores.splice(0, scores.length, ...now.scores);
    pending = [];
    [frame] = now.frames;
    choice = frame;
    draw();
  }

  function onkey(event) {
    const control = event.target.closest?.("select, input, button, a, summary");
    if (event.ctrlKey || event.metaKey || event.altKey || (control && [" ", "Enter"].includes(event.key)) || event.target.closest?.("select")) return;
    if (waitsForNext() && NEXT_KEYS.includes(event.key)) {
      event.preventDefault();
      return startNextEpisode();
    }
    const key = event.key === "Enter" ? " " : event.key; // Enter acts like the space bar
    const number = actions.findIndex((action) => action.key && action.key === key);
    if (number < 0 || over) return;
    event.preventDefault();
    act(number);
  }
  document.addEventListener("keydown", onkey);

  const hides = board.hides_partner ? ` You see what a player in your seat observes: your own position, but not ${board.num_seats > 2 ? "those of the others" : "your partner’s"}.` : "";
  const open = board.kind === "text" && !board.shown_by_seat ? " The text of this game does not depend on the seat: it shows everything." : "";
  const element = h("section", { class: `panel trial ${board.kind}`, "aria-label": "Trial" },
    h("div", { class: "trial-head" }, h("h2", {}, titleOf(trial)), h("button", { type: "button", class: "small", onclick: onleave }, "Leave this trial")),
    h("p", { class: "rules" }, board.rules, hides, open, ` You are ${describeSeat(board, seat)}.`),
    h("div", { class: "trial-body" },
      stage,
      h("div", { class: "trial-moves" }, status, words, nextButton, passButton, pad, problem),
      h("div", { class: "trial-score" }, h("h3", {}, "Score and oracle"), total, list, oracleNote, drawing.aside)));
  pending = [...trial.frames];
  advance();
  return {
    element,
    start: () => {
      element.scrollIntoView({ block: "start" });
      stage.focus({ preventScroll: true });
    },
    stop: () => {
      clearTimeout(timer);
      document.removeEventListener("keydown", onkey);
    },
  };
}

// Who the returns are compared with.
export const oracleName = ({ board, partner }) =>
  partner.reference.startsWith("heuristic") ? "a player who knows the heuristic" : `a ${board.num_seats > 2 ? "team that" : "partner who"} knows what you will do`;

// Who plays: with more than two players, one policy plays all remaining seats.
function titleOf({ board, partner, team }) {
  const rest = board.num_seats - (team ? 2 : 1);
  const where = rest > 2 ? ` in all ${rest} other seats` : rest > 1 ? " in both other seats" : "";
  if (!team) return `You and the ${partner.name}${where}`;
  return `You, the ${partner.name} (${seatName(board, partner.seat)}) and the ${team.name}${where}`;
}

export const replayLink = (recording) => h("a", { href: address("recordings", { replay: recording }) }, "Replay this trial");
