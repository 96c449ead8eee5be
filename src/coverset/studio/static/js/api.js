// Requests to the server. A failed request throws an Error with the server's message.

async function request(path, options = {}) {
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The studio does not respond. Is it still running?");
  }
  const content = await response.json().catch(() => ({}));
  if (!response.ok) {
    const error = new Error(content.error ?? `The studio responded with status ${response.status}.`);
    error.status = response.status;
    throw error;
  }
  return content;
}

const post = (path, message) =>
  request(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(message) });

const query = (fields) => new URLSearchParams(fields).toString();

export const api = {
  runs: (signal) => request("api/runs", { signal }),
  run: (run, signal) => request(`api/run?${query({ run })}`, { signal }),
  engine: () => request("api/engine"),
  board: (run) => request(`api/board?${query({ run })}`),
  watch: (run, bestResponse, teammate, seed, probe) =>
    request(`api/watch?${query({ run, best_response: bestResponse, teammate, seed, ...(probe && { probe }) })}`),
  startTrial: (message) => post("api/trials", message),
  trial: (id) => request(`api/trials/${encodeURIComponent(id)}`),
  move: (id, step, action) => post(`api/trials/${encodeURIComponent(id)}/moves`, { step, action }),
  recordings: () => request("api/recordings"),
  replay: (name) => request(`api/recordings/${encodeURIComponent(name)}/frames`),
  deleteRecording: (name) => request(`api/recordings/${encodeURIComponent(name)}`, { method: "DELETE" }),
};

export const downloadAddress = (name) => `api/recordings/${encodeURIComponent(name)}`;

export const newSeed = () => crypto.getRandomValues(new Uint32Array(1))[0];

// Poll until the page is left; `show` gets each response that differs from the previous one.
export function poll(load, show, fail, milliseconds = 2000) {
  const leaving = new AbortController();
  let before = null;
  (async () => {
    while (!leaving.signal.aborted) {
      try {
        const answer = await load(leaving.signal);
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
