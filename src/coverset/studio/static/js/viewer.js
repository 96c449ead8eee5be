// Player for episodes: play, pause, step, speed, new initial state.

import { createBoard } from "./boards/index.js";
import { announce, h, select, short } from "./dom.js";
import { allSeats, showReturns } from "./seats.js";

const SPEEDS = [["0.5", "half speed"], ["1", "normal speed"], ["2", "double speed"], ["6", "fast"]];
const FRAME_MILLISECONDS = 600;

export function ending(frame, names) {
  if (!frame.ended) return "";
  const how = frame.ended === "terminated" ? "The episode is over" : "Time is up";
  const did = (frame.conventions ?? []).map((convention, seat) => convention && `${names[seat]}: ${convention}`).filter(Boolean);
  return `${how}. ${did.length ? `${did.join(", ")}. ` : ""}`;
}

// seat: whose return is shown. view: see boards/index.js. onrestart, if given, loads an episode from a new initial state.
export function createViewer({ board, episodes, seat: own }, view, { onrestart, label = "Episode" } = {}) {
  const drawing = createBoard(board);
  let episode = 0;
  let at = 0;
  let speed = 1;
  let timer = null;
  const status = h("p", { class: "status" });
  const words = h("p", { class: "quiet words" });
  const playing = h("button", { type: "button", class: "primary", "data-key": "viewer-play", onclick: () => (timer ? pause() : play()) });
  const control = (text, name, action) => h("button", { type: "button", "data-key": `viewer-${name}`, "aria-label": name, onclick: action }, text);
  const frames = () => episodes[episode];
  const returnOf = (seat) => frames().slice(0, at + 1).reduce((sum, frame) => sum + (frame.rewards?.[seat] ?? 0), 0);
  const returns = () => (board.common_reward ? `Return ${short(returnOf(own))}` : `Returns: ${showReturns(allSeats(board).map(returnOf), view.names)}`);

  function show(aloud) {
    const frame = frames()[at];
    drawing.show(frame, view);
    const which = episodes.length > 1 ? `Episode ${episode + 1} of ${episodes.length}, step` : "Step";
    const actions = frame.actions?.map((action, seat) => `${view.names[seat]}: ${board.actions[seat][action]?.name ?? action}`).join(", ");
    status.textContent = `${which} ${at} of ${frames().length - 1}. ${returns()}. ${ending(frame, view.names)}`;
    words.textContent = `${actions ? `${actions}. ` : ""}${drawing.describe(frame, view)}`;
    playing.textContent = timer ? "Pause" : "Play";
    if (aloud) announce(`${status.textContent} ${words.textContent}`);
  }
  function pause() {
    clearInterval(timer);
    timer = null;
    show(false);
  }
  function play() {
    if (at >= frames().length - 1) go(episode + 1 < episodes.length ? episode + 1 : 0, 0);
    clearInterval(timer);
    timer = setInterval(tick, FRAME_MILLISECONDS / speed);
    show(false);
  }
  function tick() {
    if (at < frames().length - 1) at += 1;
    else if (episode + 1 < episodes.length) go(episode + 1, 0);
    if (at >= frames().length - 1 && episode + 1 >= episodes.length) {
      pause();
      announce(status.textContent);
    } else show(false);
  }
  function go(number, time) {
    [episode, at] = [number, time];
    if (chooser) chooser.querySelector("select").value = String(number);
  }
  function step(by) {
    pause();
    at = Math.max(0, Math.min(frames().length - 1, at + by));
    show(true);
  }
  const chooser = episodes.length > 1 &&
    select("Episode", episodes.map((_, n) => ({ value: String(n), text: String(n + 1) })), "0", (value) => { go(Number(value), 0); play(); });
  const element = h(
    "section",
    { class: "viewer", "aria-label": label },
    h("div", { class: "stage" }, drawing.element, drawing.aside),
    h("div", { class: "controls" },
      playing,
      control("◀ Step", "Step back", () => step(-1)),
      control("Step ▶", "Step forward", () => step(1)),
      onrestart && control("New start", "New start", onrestart),
      chooser,
      select("Speed", SPEEDS.map(([value, text]) => ({ value, text })), "1", (value) => { speed = Number(value); if (timer) play(); }),
    ),
    status,
    words,
  );
  show(false);
  return { element, play, stop: () => clearInterval(timer) };
}
