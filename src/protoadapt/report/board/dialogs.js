// Windows above the board: a picture in full size, a class to rename, the keys.

import { el, icon, picture, visible } from "./dom.js";
import { className } from "./operations.js";
import { factsOf, wordsOn } from "./store.js";

const MOST_ZOOM = 16;

export function dialog(label, ...children) {
  const close = el("button", { type: "button", class: "close", "aria-label": "Close" }, icon("close"));
  const element = el("dialog", { "aria-label": label }, close, ...children);
  close.addEventListener("click", () => element.close());
  element.addEventListener("click", (event) => event.target === element && element.close());
  return element;
}

/** A picture in full size; the keys of the board go on working under it. */
export function createFullSize(store) {
  const image = picture();
  const pane = el("div", { class: "pane", tabindex: "0", autofocus: true, role: "group", "aria-label": "The picture; + and - zoom" }, image);
  const words = el("p", { class: "words", "aria-live": "polite" });
  const element = dialog("Picture in full size", pane, words);
  element.classList.add("full");
  let [looked, zoomed, whole] = [null, 1, null];

  /** Larger or smaller by this factor; what is at a point of the screen, or in the middle, stays there. */
  function zoom(factor, { clientX, clientY } = {}) {
    const box = pane.getBoundingClientRect();
    const [x, y] = clientX === undefined ? [box.width / 2, box.height / 2] : [clientX - box.left, clientY - box.top];
    const [fromLeft, fromTop] = [(pane.scrollLeft + x) / zoomed, (pane.scrollTop + y) / zoomed];
    zoomed = Math.min(MOST_ZOOM, Math.max(1, zoomed * factor));
    image.style.width = image.style.height = `${100 * zoomed}%`;
    [pane.scrollLeft, pane.scrollTop] = [fromLeft * zoomed - x, fromTop * zoomed - y];
  }
  pane.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoom(Math.exp(-event.deltaY / 300), event);
  }, { passive: false });
  image.addEventListener("click", (event) => zoom(zoomed > 1 ? 1 / zoomed : 3, event));

  /** The file itself, where this page was given it and the browser can show it; else the server's copy. */
  function source(id) {
    if (whole) URL.revokeObjectURL(whole);
    const file = store.backend.originals?.get(id);
    whole = file ? URL.createObjectURL(file) : null;
    return whole ?? store.backend.picture(id).large;
  }
  image.addEventListener("error", () => {
    if (whole && image.getAttribute("src") === whole) image.src = store.backend.picture(looked).large;
  });
  element.addEventListener("close", () => (looked = null));
  function show() {
    const id = store.view.focus;
    if (!element.open || id === null) return;
    const facts = factsOf(store.state, id);
    if (looked !== id) {
      looked = id;
      image.src = source(id);
      zoom(1 / zoomed);
    }
    image.alt = `Picture ${visible(store.state.pictures[id].name)}`;
    const [label, note] = wordsOn(store.state, facts);
    words.replaceChildren(el("strong", {}, el("bdi", {}, label)), ` ${[note, facts.second && `or ${facts.second}`].filter(Boolean).join(", ")} `, el("bdi", { class: "path" }, visible(store.state.pictures[id].name)));
  }
  return {
    element, show, zoom, zoomed: () => element.open && zoomed > 1,
    toggle() {
      if (element.open) return element.close();
      if (store.view.focus === null) return;
      element.showModal();
      show();
    },
  };
}

/** Renames, merges or deletes a class. */
export function createClassDialog(store, { rename, remove }) {
  const input = el("input", { type: "text", maxlength: "80", autocomplete: "off", id: "class-name" });
  const hint = el("p", { class: "note", role: "status" });
  const title = el("h2", {});
  const save = el("button", { type: "submit", class: "primary" }, "Rename");
  const erase = el("button", { type: "button", class: "danger" }, "Delete the class");
  const form = el("form", { method: "dialog" }, title, el("label", { for: "class-name" }, "Name"), input, hint, el("div", { class: "buttons" }, erase, save));
  const element = dialog("Class", form);
  let name = "";
  function look() {
    const found = className(input.value, store.state.classes);
    const merges = found.name && found.name !== name && store.state.classes.includes(found.name);
    hint.textContent = found.error ?? (merges ? `“${found.name}” exists: the two become one class.` : "Its examples keep their class; deleting it unlabels them.");
    save.textContent = merges ? "Merge" : "Rename";
    save.disabled = Boolean(found.error) || input.value.trim() === name;
    return found.name;
  }
  input.addEventListener("input", look);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    // A change of case only is a new name, not the old class.
    const typed = input.value.trim();
    const to = typed.toLowerCase() === name.toLowerCase() ? typed : look();
    if (save.disabled || !to) return;
    element.close();
    rename(name, to);
  });
  erase.addEventListener("click", () => {
    element.close();
    remove(name);
  });
  return {
    element,
    open(class_) {
      name = class_;
      title.textContent = visible(class_);
      input.value = class_;
      look();
      element.showModal();
      input.select();
    },
  };
}

const HELP = [
  ["1 … 9, 0", "label with that class of the list"],
  ["Enter", "confirm the label"],
  ["R", "take the runner-up"],
  ["C", "type a class, an old or a new one"],
  ["U", "unknown: none of the classes"],
  ["Backspace", "take the label back"],
  ["S", "go to the first suggested picture"],
  ["Arrows, Home, End", "move; with Shift, choose on the way"],
  ["Ctrl + A", "choose everything shown"],
  ["Space", "full size; + and - or a click zoom"],
  ["F", "find similar pictures"],
  ["Ctrl + Z, Ctrl + Shift + Z", "undo, redo"],
  ["G, M", "grid, map"],
  ["/", "search"],
  ["Esc", "close, choose nothing"],
];

export function createHelp(frozen) {
  const rows = HELP.map(([keys, words]) => el("tr", {}, el("th", { scope: "row" }, el("kbd", {}, keys)), el("td", {}, words)));
  if (!frozen) rows.push(el("tr", {}, el("th", { scope: "row" }, el("kbd", {}, "Delete")), el("td", {}, "leave the picture out")));
  const mouse = "Click chooses one picture; with Ctrl several, with Shift a range. Drag pictures onto a class to label them, or draw around them on the map.";
  return dialog("Keys", el("h2", {}, "Keys"), el("table", {}, el("tbody", {}, rows)), el("p", { class: "note" }, mouse));
}
