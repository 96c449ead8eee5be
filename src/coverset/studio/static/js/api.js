// Questions to the server. An answer that is not good is thrown as an Error with the server's sentence.

async function ask(path, options = {}) {
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The studio does not answer. Is it still running?");
  }
  const content = await response.json().catch(() => ({}));
  if (!response.ok) {
    const error = new Error(content.error ?? `The studio answered with ${response.status}.`);
    error.status = response.status;
    throw error;
  }
  return content;
}

const post = (path, message) =>
  ask(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(message) });

const query = (fields) => new URLSearchParams(fields).toString();

export const api = {
  runs: (signal) => ask("api/runs", { signal }),
  run: (run, signal) => ask(`api/run?${query({ run })}`, { signal }),
  engine: () => ask("api/engine"),
  board: (run) => ask(`api/board?${query({ run })}`),
  watch: (run, bestResponse, teammate, seed) =>
    ask(`api/watch?${query({ run, best_response: bestResponse, teammate, seed })}`),
  startTrial: (message) => post("api/trials", message),
  trial: (id) => ask(`api/trials/${encodeURIComponent(id)}`),
  move: (id, step, action) => post(`api/trials/${encodeURIComponent(id)}/moves`, { step, action }),
  recordings: () => ask("api/recordings"),
  replay: (name) => ask(`api/recordings/${encodeURIComponent(name)}/frames`),
  deleteRecording: (name) => ask(`api/recordings/${encodeURIComponent(name)}`, { method: "DELETE" }),
};

export const downloadAddress = (name) => `api/recordings/${encodeURIComponent(name)}`;

export const newSeed = () => crypto.getRandomValues(new Uint32Array(1))[0];

// Ask again and again until the page is left; `show` gets each answer that differs from the one before.
export function follow(question, show, fail, milliseconds = 2000) {
  const leaving = new AbortController();
  let before = null;
  (async () => {
    while (!leaving.signal.aborted) {
      try {
        const answer = await question(leaving.signal);
        const text = JSON.stringify(answer);
        if (!leaving.signal.aborted && text !== before) show(answer);
        before = text;
      } catch (error) {
        if (leaving.signal.aborted) return;
        before = null;
        fail(error);
      }
      await new Promise((done) => setTimeout(done, document.hidden ? 5 * milliseconds : milliseconds));
    }
  })();
  return () => leaving.abort();
}
