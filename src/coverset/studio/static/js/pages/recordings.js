// Recorded trials: replay, download, delete.

import { api, downloadAddress } from "../api.js";
import { announce, h, plural, refill, short } from "../dom.js";
import { seatNames } from "../seats.js";
import { createViewer } from "../viewer.js";
import { address } from "../words.js";

const sum = (values) => values.reduce((total, value) => total + (value ?? 0), 0);

function deleteButton(name, deleted) {
  let sure = false;
  const button = h("button", { type: "button", class: "small", "data-key": `delete-${name}`, onclick: async () => {
    if (!sure) {
      sure = true;
      button.textContent = "Confirm deletion";
      return;
    }
    await api.deleteRecording(name).catch((error) => announce(error.message));
    announce("The recording is deleted.");
    deleted();
  } }, "Delete");
  return button;
}

function row(recording, deleted) {
  const cell = (label, ...content) => h("td", { "data-label": label }, h("div", {}, content));
  if (recording.damaged)
    return h("tr", { class: "damaged" }, h("th", { scope: "row" }, recording.name), h("td", { colspan: 3 }, recording.damaged), h("td", {}, deleteButton(recording.name, deleted)));
  const possible = sum(recording.oracles);
  return h("tr", {},
    h("th", { scope: "row" }, recording.game),
    cell("Partner", `${recording.partner ?? "unknown"}`, h("small", {}, recording.run)),
    cell("Episodes", `${recording.returns.length} of ${recording.planned ?? recording.returns.length}`),
    cell("Score", `${short(sum(recording.returns), 4)}${possible ? ` of ${short(possible, 4)}` : ""}`, h("small", {}, recording.returns.map((value) => short(value)).join(", "))),
    cell("Actions", h("div", { class: "links" }, h("a", { href: address("recordings", { replay: recording.name }), "data-key": `replay-${recording.name}` }, "Replay"),
      h("a", { href: downloadAddress(recording.name), download: `${recording.name}.json` }, "Download"), deleteButton(recording.name, deleted))));
}

export function show(main, fields) {
  let viewer = null;
  let left = false;
  const replay = h("div", {});
  const place = h("div", {}, h("p", { class: "quiet" }, "Loading recordings."));
  main.append(h("p", { class: "lead" }, "Trials played in this studio. A recording contains the moves of all players and the seed of the initial states, and nothing about the person."), replay, place);

  async function list() {
    const { recordings } = await api.recordings();
    if (left) return;
    refill(place, recordings.length
      ? h("section", { class: "panel" }, h("h2", {}, plural(recordings.length, "recording")), h("table", { class: "stack" },
          h("thead", {}, h("tr", {}, ["Game", "Partner", "Episodes", "Score", "Actions"].map((text) => h("th", { scope: "col" }, text)))),
          h("tbody", {}, recordings.map((recording) => row(recording, () => list().catch(fail))))))
      : h("section", { class: "panel" }, h("h2", {}, "No recordings yet"), h("p", {}, "Every finished episode is recorded. ", h("a", { href: "#/play" }, "Play a trial"), ".")));
  }
  async function watch(name) {
    refill(replay, h("p", { class: "quiet", role: "status" }, "Replaying the recording. The first time takes a few seconds."));
    const played = await api.replay(name);
    if (left) return;
    const names = seatNames(played.board, played.seat, "Person");
    const letters = names.map((_, seat) => (seat === played.seat ? "you" : names.length > 2 ? String(seat + 1) : ""));
    viewer = createViewer(played, { names, letters, hidden: [] }, { label: "Replay" });
    refill(replay, h("section", { class: "panel" }, h("h2", {}, "Replay"), viewer.element));
    viewer.play();
  }
  const fail = (error) => refill(place, h("p", { class: "problem", role: "alert" }, error.message));
  list().catch(fail);
  const name = fields.get("replay");
  if (name) watch(name).catch((error) => refill(replay, h("p", { class: "problem", role: "alert" }, error.message)));
  return () => {
    left = true;
    viewer?.stop();
  };
}
