// Elements made in code: text is always text, so a file name can be anything.

const SVG = "http://www.w3.org/2000/svg";

/** An element. `on` holds listeners, `data` the dataset; null, undefined and false leave an attribute out. */
export function el(name, { on = {}, data = {}, ...attributes } = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) setAttribute(element, key, value);
  for (const [event, listener] of Object.entries(on)) element.addEventListener(event, listener);
  Object.assign(element.dataset, data);
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** An image that is marked while it is missing, and asked for again with growing pauses: its server may be back. */
export function picture(attributes = {}) {
  let [wait, pause] = [0, 1000];
  const image = el("img", { alt: "", ...attributes, on: {
    load() {
      image.classList.remove("missing");
      clearTimeout(wait);
      pause = 1000;
    },
    error() {
      image.classList.add("missing");
      clearTimeout(wait);
      if (!image.src.startsWith("http")) return;
      wait = setTimeout(() => image.isConnected && image.setAttribute("src", image.getAttribute("src")), pause);
      pause = Math.min(2 * pause, 60000);
    },
  } });
  return image;
}

export function setAttribute(element, key, value) {
  if (value === null || value === undefined || value === false) element.removeAttribute(key);
  else element.setAttribute(key, value === true ? "" : value);
}

export function svg(name, attributes, ...children) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

const ICONS = {
  undo: "M8 4 4 8l4 4M4 8h7a5 5 0 0 1 0 10H8",
  redo: "M12 4l4 4-4 4M16 8H9a5 5 0 0 0 0 10h3",
  add: "M10 4v12M4 10h12",
  save: "M10 3v9M6 9l4 4 4-4M4 17h12",
  grid: "M3 3h5v5H3zM12 3h5v5h-5zM3 12h5v5H3zM12 12h5v5h-5z",
  map: "M4 15.5a1 1 0 1 0 .1 0M8 7a1 1 0 1 0 .1 0M12.5 12a1 1 0 1 0 .1 0M16 5a1 1 0 1 0 .1 0",
  about: "M4 5h12M4 10h12M4 15h7",
  more: "M4 10h.1M10 10h.1M16 10h.1",
  close: "M5 5l10 10M15 5 5 15",
  help: "M7.5 7.5a2.5 2.5 0 1 1 3.6 2.2c-.8.4-1.1 1-1.1 1.8M10 15h.1",
  folder: "M2.5 5.5h5l2 2h8v8.5h-15z",
  file: "M5 2.5h6.5L15 6v11.5H5zM11 2.5V6.5h4",
  check: "M3.5 10.5l4 4 9-9",
  many: "M3 6l2 2 3-4M3 14l2 2 3-4M11 6h6M11 14h6",
};

export function icon(name) {
  return svg("svg", { class: "icon", viewBox: "0 0 20 20", "aria-hidden": "true" }, svg("path", { d: ICONS[name] }));
}

/** Text in which every invisible character has a visible sign, as the static part of a report writes it. */
export function visible(text) {
  return String(text).replace(/[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]/gu, (sign) => {
    const code = sign.codePointAt(0);
    if (code < 0x20) return String.fromCodePoint(0x2400 + code);
    return code >= 0xdc80 && code <= 0xdcff ? `\\x${(code - 0xdc00).toString(16)}` : "\ufffd";
  });
}

/** A name in one line. Where there is too little room, it is cut before `from`, and then at its end. */
export function nameOf(text, from = 0) {
  const shown = [...visible(text)];
  return el("bdi", { class: "name", title: shown.join("") }, from > 0 && el("span", { class: "head" }, shown.slice(0, from).join("")),
    el("span", { class: "tail" }, shown.slice(from).join("")));
}

/** The same of a file: these mostly differ at their end. */
export function fileName(text) {
  return nameOf(text, Math.max(0, [...visible(text)].length - 9));
}

/** A name over several lines, broken between its words, and never cut. */
export function wholeName(text) {
  const words = visible(text).split(/(?<=[_\-. ])/);
  return el("bdi", { class: "name whole", title: visible(text) }, words.flatMap((word) => [word, el("wbr")]));
}

/** Where a name begins to differ from the others that begin as it does: the start of a word, if there is one. */
export function differsAt(name, others) {
  const letters = [...name];
  const alike = (other) => letters.findIndex((letter, i) => letter !== [...other][i]);
  const longest = Math.max(0, ...others.filter((other) => other !== name).map(alike));
  const word = letters.slice(0, longest).findLastIndex((letter) => /[_\-. ]/.test(letter)) + 1;
  return word || (longest > 3 ? longest : 0);
}

export function count(n, one, many = `${one}s`) {
  return `${n.toLocaleString("en")} ${n === 1 ? one : many}`;
}
