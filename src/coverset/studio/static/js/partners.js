// The partners that a person can play with in a run, and the seats that they leave free.

import { percent } from "./dom.js";
import { allSeats, otherSeats, seatName } from "./seats.js";

const numbered = (count) => Array.from({ length: count ?? 0 }, (_, n) => n);

const withWords = (name, words) => (words ? `${name}: ${words}` : name);

const isEgo = (partner) => /^(agent|(probe-)?best-response):/.test(partner);

// details: the run's record; heuristics: those of its environment, empty until they are loaded.
export function partnerOptions(details, heuristics) {
  const playable = details.agents.filter((agent) => agent.playable);
  const named = new Set(playable.map((agent) => agent.seat)).size > 1;
  const agents = playable.map((agent) => ({
    value: `agent:${agent.name}`, group: "Ad hoc agents: you are the teammate",
    text: [`${agent.name} agent`, named && `in seat ${agent.seat}`, agent.oracle_fraction !== null && `earns ${percent(agent.oracle_fraction)} of the oracle with held-out partners`].filter(Boolean).join(", "),
  }));
  const best = numbered(details.watchable ? details.population_size : 0).map((n) => ({
    value: `best-response:${n + 1}`, group: "Best responses: you are the teammate",
    text: withWords(`best response ${n + 1}`, details.best_response_conventions?.[n]),
  }));
  const found = (details.probes ?? []).map(({ name, best_response: words }) => ({
    value: `probe-best-response:${name}`, group: "Best responses: you are the teammate", text: withWords(`best response found by ${name}`, words),
  }));
  return [...agents, ...best, ...found, ...teamOptions(details, heuristics, ": you are the best response")];
}

// Policies that play all seats of a team.
function teamOptions(details, heuristics, role = "") {
  const teammates = numbered(details.watchable ? details.population_size : 0).map((n) => ({
    value: `teammate:${n + 1}`, group: `Teammates${role}`, text: withWords(`teammate ${n + 1}`, details.conventions?.[n]),
  }));
  const found = (details.probes ?? []).map(({ name, teammate: words }) => ({
    value: `probe-teammate:${name}`, group: `Teammates${role}`, text: withWords(`teammate found by ${name}, which the set serves worst`, words),
  }));
  const scripted = heuristics.map(({ reference, name, does }) => ({
    value: reference, group: `Heuristics${role}`, text: withWords(name, does),
  }));
  return [...teammates, ...found, ...scripted];
}

// Who plays the seats that person and partner leave free, a best response's own teammate first. Nobody with two players,
// or if the partner plays the team.
export function otherTeamOptions(board, details, heuristics, partner) {
  if (!board || board.num_seats === 2 || !partner || !isEgo(partner)) return [];
  const own = partner.replace("best-response", "teammate");
  const options = teamOptions(details, heuristics);
  return [...options.filter(({ value }) => value === own), ...options.filter(({ value }) => value !== own)];
}

// The seats that a person can take with a partner, where there is a choice.
export function seatOptions(board, details, partner) {
  if (!board || board.num_seats === 2 || !partner) return [];
  const taken = details.agents.find(({ name }) => partner === `agent:${name}`)?.seat ?? 0;
  const seats = isEgo(partner) ? otherSeats(board, taken) : board.seats_alike ? allSeats(board) : [];
  return seats.map((seat) => ({ value: String(seat), text: `${seatName(board, seat)} of ${board.num_seats}` }));
}
