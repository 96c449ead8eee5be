// Helpers to build pages. Text is always inserted as text, never as markup: file contents are not trusted.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "vars") for (const [key, text] of Object.entries(value)) element.style.setProperty(key, text);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
export const s = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

export function announce(sentence) {
  const place = document.getElementById("announcement");
  if (place.textContent !== sentence) place.textContent = sentence;
}

// Replace the content of `place` and keep the focus: the focused element is found again by its data-key.
export function refill(place, ...children) {
  const key = place.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  place.replaceChildren(...children.flat(Infinity).filter(Boolean));
  if (key) place.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus({ preventScroll: true });
}

export function select(label, options, value, onchange, attributes = {}) {
  const box = h("select", { ...attributes, onchange: () => onchange(box.value) });
  const groups = new Map();
  for (const option of options) {
    if (option.group && !groups.has(option.group)) {
      groups.set(option.group, h("optgroup", { label: option.group }));
      box.append(groups.get(option.group));
    }
    (groups.get(option.group) ?? box).append(h("option", { value: option.value }, option.text));
  }
  if (value !== undefined && value !== null) box.value = value;
  return h("label", { class: "field" }, h("span", {}, label), box);
}

// A number in a few characters: 0.0123, 12.3, 12.3k, 1.2e-7.
export function short(value, digits = 3) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size >= 1e6 || (size > 0 && size < 1e-3)) return value.toExponential(1).replace("e+", "e");
  if (size >= 1e4) return `${Number((value / 1e3).toPrecision(digits))}k`;
  return Number(value.toPrecision(Math.max(digits, size >= 1 ? Math.floor(Math.log10(size)) + 1 : 0))).toString();
}

// Writes numbers of a table, all with the decimals that the largest needs for three digits.
export function sameDecimals(largest) {
  if (largest >= 1e4 || largest < 0.05) return (value) => short(value, 2);
  const decimals = Math.min(2, Math.max(0, 2 - Math.floor(Math.log10(largest))));
  return (value) => (value === null || value === undefined ? "–" : value.toFixed(decimals));
}

export const percent = (share) => (share === null || share === undefined ? "–" : `${Math.round(100 * share)}%`);

export const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;
