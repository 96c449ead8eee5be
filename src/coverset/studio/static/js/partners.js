// The partners that a person can play with in a run.

const numbered = (count) => Array.from({ length: count ?? 0 }, (_, n) => n);

const withWords = (name, words) => (words ? `${name}: ${words}` : name);

// details: the run's record; heuristics: those of its environment, empty until they are loaded.
export function partnerOptions(details, heuristics) {
  const agents = details.agents.filter((agent) => agent.playable).map((agent) => ({
    value: `agent:${agent.learner}`, text: `${agent.learner} agent, adapts to you`, group: "Ad hoc agents: you are the teammate",
  }));
  const count = details.watchable ? details.population_size : 0;
  const best = numbered(count).map((n) => ({
    value: `best-response:${n + 1}`, group: "Best responses: you are the teammate",
    text: withWords(`best response ${n + 1}`, details.best_response_conventions?.[n]),
  }));
  const teammates = numbered(count).map((n) => ({
    value: `teammate:${n + 1}`, group: "Teammates: you are the best response",
    text: withWords(`teammate ${n + 1}`, details.conventions?.[n]),
  }));
  const scripted = heuristics.map(({ reference, name, does }) => ({
    value: reference, group: "Heuristics: you are the best response", text: withWords(name, does),
  }));
  return [...agents, ...best, ...teammates, ...scripted];
}
