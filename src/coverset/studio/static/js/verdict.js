// What a trial has shown once it is over: the score in sentences, and what the partner believed in each episode.

import { h, percent, plural, short } from "./dom.js";

const ADAPTED = 0.1; // a rise by this share of the oracle between the first and the last episodes counts as adaptation
const SUITED = 0.9; // this share of the oracle from the start on needs no adaptation

const sum = (values) => values.reduce((total, value) => total + value, 0);
const share = (scores) => sum(scores.map((score) => score.return)) / sum(scores.map((score) => score.oracle));

// Sentences about a finished trial. adapts: whether the partner is an ad hoc agent, which should adapt.
export function verdict(scores, { adapts, commonReward, oracle }) {
  const earned = short(sum(scores.map((score) => score.return)), 4);
  const known = scores.every((score) => score.oracle !== null) && sum(scores.map((score) => score.oracle)) > 0;
  const total = known ? `${earned} of ${short(sum(scores.map((score) => score.oracle)), 4)}, ${percent(share(scores))} of what ${oracle} earns` : earned;
  const sentences = [`${commonReward ? "Together you earned" : "You earned"} ${total}, in ${plural(scores.length, "episode")}.`];
  if (adapts && scores.length > 1) sentences.push(adaptation(scores, known));
  return sentences;
}

// Whether the last third of the episodes earned more than the first third.
function adaptation(scores, known) {
  const third = Math.max(1, Math.floor(scores.length / 3));
  const ends = [scores.slice(0, third), scores.slice(-third)];
  const which = third > 1 ? [`the first ${third} episodes`, `the last ${third}`] : ["the first episode", "the last"];
  if (!known) {
    const [early, late] = ends.map((some) => short(sum(some.map((score) => score.return)) / some.length));
    return `The agent earned ${early} in ${which[0]} and ${late} in ${which[1]}.`;
  }
  const [early, late] = ends.map(share);
  const told = `${percent(early)} of the oracle in ${which[0]}, ${percent(late)} in ${which[1]}.`;
  if (late - early >= ADAPTED) return `The agent adapted to you: ${told}`;
  if (late >= SUITED) return `The agent suited you from the start: ${told}`;
  return `The agent did not adapt to you: ${told} If you kept to one convention, that is the agent’s fault.`;
}

const EXPLAINED = {
  belief: ["What the agent believed", "The agent keeps a belief over the teammates that it was made with: how likely it took each of them to be you when it chose how to play the episode."],
  resemblance: ["Whom the agent’s play suited", "The agent keeps no belief that could be read. Instead: how likely its actions in the episode are under the best response to each teammate, normalised. It acted as if you were the teammate with the highest share."],
};

// beliefs: {kind, episodes: shares of all teammates by episode}; words: their conventions; did: what the person did.
export function beliefTable({ kind, episodes }, words, scores, did) {
  const [title, meaning] = EXPLAINED[kind];
  const count = episodes[0].length;
  const numbers = Array.from({ length: count }, (_, n) => n);
  const acted = did.some(Boolean);
  const cell = (value, top) => h("td", { class: `share${top ? " top" : ""}`, vars: { "--share": percent(value) } }, h("span", {}, percent(value)));
  return h("div", { class: "beliefs" },
    h("h3", {}, title),
    h("p", { class: "quiet" }, meaning),
    h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": title },
      h("table", {},
        h("thead", {},
          h("tr", { "aria-hidden": "true" }, h("td", { colspan: acted ? 3 : 2 }), h("td", { class: "axis", colspan: count }, "teammate")),
          h("tr", {}, h("th", { scope: "col" }, "Episode"), acted && h("th", { scope: "col" }, "You"), h("th", { scope: "col" }, "Return"),
            numbers.map((n) => h("th", { scope: "col" }, h("span", { class: "unseen" }, "teammate "), String(n + 1))))),
        h("tbody", {}, episodes.map((shares, episode) => h("tr", {},
          h("th", { scope: "row" }, String(episode + 1)),
          acted && h("td", {}, did[episode] ?? "–"),
          h("td", {}, short(scores[episode]?.return)),
          shares.map((value) => cell(value, value === Math.max(...shares)))))))),
    words.some(Boolean) && h("p", { class: "quiet" }, numbers.filter((n) => words[n]).map((n) => `Teammate ${n + 1}: ${words[n]}.`).join(" ")));
}
