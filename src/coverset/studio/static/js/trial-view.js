// The view of a trial: board, keys and buttons for the person's moves, score.

import { api } from "./api.js";
import { createBoard } from "./boards/index.js";
import { announce, h, refill, short } from "./dom.js";
import { ending } from "./viewer.js";
import { address } from "./words.js";

const MOST_QUEUED = 3;
const KEY_NAMES = { " ": "space", ArrowUp: "↑", ArrowDown: "↓", ArrowLeft: "←", ArrowRight: "→" };
const NEXT_KEYS = ["Enter", "n"];

// trial: the server's description. onover is called after the last episode, onlost if the trial has expired.
export function createTrialView(trial, { onover, onlost, onleave }) {
  const { board, seat } = trial;
  const drawing = createBoard(board);
  const actions = board.actions[seat];
  const hides = board.hides_partner;
  const arrows = ["up", "down", "left", "right"].every((name) => actions.some((action) => action.name === name));
  const names = seat ? ["Partner", "You"] : ["You", "Partner"];
  const letters = seat ? ["", "you"] : ["you", ""];
  let { step, scores } = trial;
  let frame = trial.frame;
  let next = null; // first frame of the next episode, while the last frame of this one is shown
  let over = trial.over;
  let queued = 0;
  let line = Promise.resolve();

  const status = h("p", { class: "status", id: "trial-status" });
  const words = h("p", { class: "quiet words" });
  const total = h("p", { class: "total" });
  const list = h("ul", { class: "scores plain" });
  const problem = h("p", { class: "problem", role: "alert" });
  const everything = h("input", { type: "checkbox", onchange: () => draw() });
  const nextButton = h("button", { type: "button", class: "primary next", onclick: startNextEpisode }, "Next episode (Enter)");
  const pad = h("div", { class: arrows ? "pad arrows" : "pad", role: "group", "aria-label": "Your actions" }, actions.map((action, number) =>
    h("button", { type: "button", class: `act act-${action.name.replace(/\W/g, "-")}`, onclick: () => act(number) }, action.name,
      action.key && h("kbd", {}, KEY_NAMES[action.key] ?? action.key))));
  const stage = h("div", { class: "stage", tabindex: 0, role: "application", "aria-label": "The game. Use the keys shown on the buttons below.", "aria-describedby": "trial-status" }, drawing.element);

  const view = () => ({ names, letters, hidden: hides && !everything.checked && !frame.ended ? 1 - seat : null });

  function draw() {
    drawing.show(frame, view());
    const number = Math.min(trial.planned, next || over ? scores.length : scores.length + 1);
    const result = frame.ended ? `${ending(frame, names)}Return ${short(scores.at(-1).return)}${scores.at(-1).oracle === null ? "" : ` of ${short(scores.at(-1).oracle)}`}.` : "";
    status.textContent = `Episode ${number} of ${trial.planned}, step ${frame.time} of at most ${board.horizon}. ${result}`;
    words.textContent = drawing.describe(frame, view());
    const earned = scores.reduce((sum, score) => sum + score.return, 0);
    const possible = scores.reduce((sum, score) => sum + (score.oracle ?? 0), 0);
    total.replaceChildren("Score ", h("b", { id: "score" }, short(earned, 4)), possible ? ` of ${short(possible, 4)}` : "");
    refill(list, scores.map((score, n) => h("li", {}, `Episode ${n + 1}: ${short(score.return)}${score.oracle === null ? "" : ` of ${short(score.oracle)}`}`,
      score.oracle > 0 && h("meter", { min: 0, max: score.oracle, value: Math.max(0, score.return), "aria-hidden": "true" }))));
    nextButton.hidden = !next;
    for (const button of pad.children) button.disabled = Boolean(next) || over;
  }

  function startNextEpisode() {
    if (!next) return;
    frame = next;
    next = null;
    draw();
    announce(`${status.textContent} ${words.textContent}`);
    stage.focus({ preventScroll: true });
  }

  function act(action) {
    if (over || next || queued >= MOST_QUEUED) return;
    queued += 1;
    line = line.then(() => send(action)).finally(() => (queued -= 1));
  }

  async function send(action) {
    if (over || next) return;
    try {
      const answer = await api.move(trial.trial, step, action);
      problem.textContent = "";
      ({ step, scores, over } = answer);
      frame = answer.frame;
      next = answer.start;
      if (next && board.kind === "table" && board.horizon === 1) next = null; // a one-step game has no first frame worth showing
      draw();
      announce(`${status.textContent} ${words.textContent}`);
      if (over) onover(answer);
      else if (next) nextButton.focus({ preventScroll: true });
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
    ({ step, scores, over, frame } = now);
    next = null;
    draw();
  }

  function onkey(event) {
    const control = event.target.closest?.("select, input, button, a, summary");
    if (event.ctrlKey || event.metaKey || event.altKey || (control && [" ", "Enter"].includes(event.key)) || event.target.closest?.("select")) return;
    if (next && NEXT_KEYS.includes(event.key)) {
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

  const element = h("section", { class: "panel trial", "aria-label": "Trial" },
    h("div", { class: "trial-head" }, h("h2", {}, `You and the ${trial.partner.name}`), h("button", { type: "button", class: "small", onclick: onleave }, "Leave this trial")),
    h("p", {}, board.rules, hides ? " You see what a player in your seat observes: your own position, but not your partner’s." : "", ` You are the ${seat ? "square □" : "disc ○"}.`),
    h("div", { class: "trial-body" },
      h("div", { class: "trial-board" }, stage, status, words, nextButton, pad, problem,
        hides && h("label", { class: "check" }, everything, " Show my partner")),
      h("div", { class: "trial-score" }, drawing.aside, h("h3", {}, "Score and oracle"), total, list,
        h("p", { class: "quiet" }, trial.partner.reference.startsWith("heuristic") ? "The oracle is a player who knows the heuristic." : "The oracle is a partner who knows what you will do."))));
  draw();
  return { element, start: () => stage.focus({ preventScroll: true }), stop: () => document.removeEventListener("keydown", onkey) };
}

export const replayLink = (recording) => h("a", { href: address("recordings", { replay: recording }) }, "Replay this trial");
