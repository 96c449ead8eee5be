// Display names.

const METHODS = { lbrdiv: "L-BRDiv", brdiv: "BRDiv", lipo: "LIPO", independent: "independent" };

export const methodName = (method) => METHODS[method] ?? method;

export const STATES = {
  finished: "finished",
  training: "training",
  measuring: "trained, being measured",
  waiting: "waiting for other seeds",
  stopped: "stopped early",
  damaged: "cannot be read",
};

export const runName = (run) =>
  run.game ? `${run.game}, ${methodName(run.method)}, seed ${run.seed} (${run.group})` : `${run.group}, seed ${run.seed}`;

export const address = (page, fields) => `#/${page}?${new URLSearchParams(fields)}`;
