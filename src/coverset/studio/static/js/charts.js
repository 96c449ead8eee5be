// SVG line charts with a legend, and a description for screen readers.

import { h, s, short } from "./dom.js";

const WIDTH = 560;
const HEIGHT = 220;
const EDGE = { left: 48, right: 12, top: 10, bottom: 30 };

function range(values, includeZero) {
  const known = values.filter((value) => value !== null && value !== undefined);
  if (!known.length) return [0, 1];
  let low = Math.min(...known, ...(includeZero ? [0] : []));
  let high = Math.max(...known, ...(includeZero ? [0] : []));
  if (high - low < 1e-9) high = low + (Math.abs(low) || 1); // a flat line lies at the bottom, not in the middle of nothing
  return [low, high];
}

function path(x, values, across, up) {
  let drawn = "";
  let gap = true;
  values.forEach((value, index) => {
    if (value === null || value === undefined) gap = true;
    else {
      drawn += `${gap ? "M" : "L"}${across(x[index]).toFixed(1)} ${up(value).toFixed(1)}`;
      gap = false;
    }
  });
  return drawn;
}

// A line, or a dot where only one value is known.
function drawLine(x, line, across, up) {
  const known = line.values.flatMap((value, index) => (value === null || value === undefined ? [] : [index]));
  const look = `tone-${line.tone % 8}${line.dashed ? " dashed" : ""}`;
  if (known.length === 1) return s("circle", { cx: across(x[known[0]]).toFixed(1), cy: up(line.values[known[0]]).toFixed(1), r: 4, class: `dot ${look}` });
  return s("path", { d: path(x, line.values, across, up), class: `line ${look}` });
}

const last = (values) => values.findLast((value) => value !== null && value !== undefined) ?? null;

const describeSeries = (series) =>
  series.map(({ name, values }) => `${name}: ${short(values.find((v) => v !== null) ?? null)} first, ${short(last(values))} last`).join("; ");

const steps = (count) =>
  count >= 1e6 ? `${short(count / 1e6)} million` : count >= 1e3 ? `${short(count / 1e3)} thousand` : String(count);

// series: [{name, values, tone (0..7), dashed, unlisted}]; top: a value that the vertical axis reaches in any case.
export function lineChart(title, x, series, { unit = "", zero = false, top = null } = {}) {
  const [low, high] = range([...series.flatMap((line) => line.values), top], zero);
  const [first, end] = range(x, true);
  const across = (value) => EDGE.left + ((value - first) / (end - first)) * (WIDTH - EDGE.left - EDGE.right);
  const up = (value) => HEIGHT - EDGE.bottom - ((value - low) / (high - low)) * (HEIGHT - EDGE.top - EDGE.bottom);
  const ticks = top === null ? [low, (low + high) / 2, high] : [low, high];
  const picture = s(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `${title}. ${describeSeries(series)}.`, class: "chart" },
    ticks.map((tick) => [
      s("line", { x1: EDGE.left, x2: WIDTH - EDGE.right, y1: up(tick), y2: up(tick), class: "rule" }),
      s("text", { x: EDGE.left - 6, y: up(tick) + 4, class: "tick end" }, short(tick, 2)),
    ]),
    zero && low < 0 && s("line", { x1: EDGE.left, x2: WIDTH - EDGE.right, y1: up(0), y2: up(0), class: "zero" }),
    s("text", { x: EDGE.left, y: HEIGHT - 8, class: "tick" }, "0"),
    s("text", { x: WIDTH - EDGE.right, y: HEIGHT - 8, class: "tick end" }, `${steps(end)} environment steps`),
    series.map((line) => drawLine(x, line, across, up)),
  );
  return h("figure", {}, h("figcaption", {}, title, unit && h("span", { class: "quiet" }, ` ${unit}`)), picture, legend(series));
}

const swatch = (line) => h("span", { class: `swatch tone-${line.tone % 8}${line.dashed ? " dashed" : ""}` });

const legend = (series, latest = true) => h("ul", { class: "legend" }, series.filter((line) => line.name && !line.unlisted).map((line) =>
  h("li", {}, swatch(line), `${line.name} `, latest && h("b", {}, short(last(line.values))))));

// One small chart for each panel, [{name, series}], all on one vertical scale.
export function smallMultiples(title, x, panels, { unit = "" } = {}) {
  const [low, high] = range(panels.flatMap(({ series }) => series.flatMap((line) => line.values)), true);
  const [first, end] = range(x, true);
  const across = (value) => 4 + ((value - first) / (end - first)) * 152;
  const up = (value) => 66 - ((value - low) / (high - low)) * 60;
  const small = ({ name, series }) => h("li", {},
    h("span", {}, name, " ", h("b", {}, series.map((line) => short(last(line.values), 2)).join(" / "))),
    s("svg", { viewBox: "0 0 160 70", class: "multiple", role: "img", "aria-label": `${title}, ${name}. ${describeSeries(series)}.` },
      s("line", { x1: 4, x2: 156, y1: up(0), y2: up(0), class: "zero" }), series.map((line) => drawLine(x, line, across, up))));
  return h("figure", {},
    h("figcaption", {}, title, unit && h("span", { class: "quiet" }, ` ${unit}`)),
    h("ul", { class: "multiples" }, panels.map(small)),
    h("p", { class: "quiet" }, `From ${short(low, 2)} to ${short(high, 2)}, over ${steps(end)} environment steps.`),
    legend(panels[0].series, false));
}

// A word-sized line chart.
export function sparkline(series, label) {
  const [low, high] = range(series.flatMap((line) => line.values), true);
  const count = Math.max(2, ...series.map((line) => line.values.length));
  const across = (index) => 2 + (index / (count - 1)) * 96;
  const up = (value) => 26 - ((value - low) / (high - low)) * 24;
  return s(
    "svg",
    { viewBox: "0 0 100 28", class: "spark", role: "img", "aria-label": label },
    series.map((line) => drawLine(line.values.map((_, index) => index), line, across, up)),
  );
}

// Slack of the two constraints of one pair over time; a constraint below zero is violated.
export function slackChart(x, series, label) {
  const [low, high] = range(series.flatMap((line) => line.values), true);
  const [first, end] = range(x, true);
  const across = (value) => 2 + ((value - first) / (end - first)) * 116;
  const up = (value) => 54 - ((value - low) / (high - low)) * 50;
  return s(
    "svg",
    { viewBox: "0 0 120 58", class: "slack", role: "img", "aria-label": label },
    s("rect", { x: 0, y: up(0), width: 120, height: Math.max(0, 58 - up(0)), class: "violated" }),
    s("line", { x1: 0, x2: 120, y1: up(0), y2: up(0), class: "zero" }),
    series.map((line) => drawLine(x, line, across, up)),
  );
}
