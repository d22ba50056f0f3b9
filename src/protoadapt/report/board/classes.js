// The side list: ways to look at the board, and its classes, onto which pictures are dropped.

import { el, icon, setAttribute, wholeName } from "./dom.js";
import { mark } from "./marks.js";
import { SCOPES, tally } from "./views.js";

export const KEYS = ["1", "2", "3", "4", "5", "6", "7", "8", "9", "0"];

/** The list. `look(scope)`, `label(name)` for pictures that are dropped on a class, `files(event, name)` for files. */
export function createClasses(store, { look, label, files, edit, create }) {
  const scopes = el("ul", { class: "scopes" });
  const classes = el("ul", { class: "classes" });
  const input = el("input", { type: "text", placeholder: "New class", "aria-label": "New class", maxlength: "80", autocomplete: "off" });
  const form = el("form", { class: "new-class" }, input, el("button", { type: "submit", "aria-label": "Add the class" }, icon("add")));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (create(input.value)) input.value = "";
  });
  const title = el("h2", {}, "Classes");
  const element = el("nav", { class: "side", "aria-label": "Views and classes" }, scopes, title, classes, form);

  function scopeItem(name, number) {
    const on = store.view.scope === name;
    return el("li", {}, el("button", { type: "button", class: "scope", "aria-current": on && "true", data: { scope: name }, on: { click: () => look(name) } },
      el("span", {}, SCOPES[name][0]), el("span", { class: "number" }, number.toLocaleString("en"))));
  }

  function classItem(name, index, of) {
    const scope = `class:${name}`;
    const examples = of.examples.map((id) => el("img", { src: store.backend.picture(id).small, alt: "", draggable: "false" }));
    const key = KEYS[index];
    const spoken = `${name}: ${of.found} found, ${of.given} labelled by you${key ? `, key ${key}` : ""}`;
    const button = el("button", { type: "button", class: "class", "aria-label": spoken, "aria-current": store.view.scope === scope && "true", on: { click: () => look(scope) } },
      mark(index), wholeName(name), el("span", { class: "examples" }, examples),
      el("span", { class: "number" }, (of.found + of.given).toLocaleString("en")), key && el("kbd", {}, key));
    const item = el("li", { data: { name } }, button, !store.backend.frozen &&
      el("button", { type: "button", class: "dots", "aria-label": `Rename, merge or delete ${name}`, on: { click: () => edit(name) } }, icon("more")));
    item.addEventListener("dragover", (event) => {
      event.preventDefault();
      item.classList.add("over");
    });
    item.addEventListener("dragleave", (event) => item.contains(event.relatedTarget) || item.classList.remove("over"));
    item.addEventListener("drop", (event) => {
      event.preventDefault();
      event.stopPropagation();
      item.classList.remove("over");
      if (event.dataTransfer.types.includes("application/x-protoadapt")) label(name);
      else files(event, name);
    });
    return item;
  }

  let [drawn, seen] = ["", ""];
  return {
    element, input,
    show() {
      const { state, view } = store;
      if (seen === `${state.version} ${view.scope}`) return;
      seen = `${state.version} ${view.scope}`;
      const { scopes: numbers, classes: found } = tally(state, view);
      const sign = JSON.stringify([numbers, [...found], view.scope]);
      if (sign === drawn) return;
      drawn = sign;
      const held = document.activeElement?.closest?.("[data-scope], [data-name]")?.dataset;
      const wanted = Object.keys(SCOPES).filter((name) => name === "all" || name === view.scope || numbers[name] || (state.answers && !store.backend.frozen)); // steps move no row
      scopes.replaceChildren(...wanted.map((name) => scopeItem(name, numbers[name])));
      classes.replaceChildren(...state.classes.map((name, index) => classItem(name, index, found.get(name))));
      setAttribute(title, "hidden", !state.classes.length && !state.pictures.length);
      setAttribute(form, "hidden", !state.pictures.length);
      if (held) [...element.querySelectorAll("[data-scope], [data-name]")].find((one) => held.scope ? one.dataset.scope === held.scope : one.dataset.name === held.name)?.closest("li")?.querySelector("button").focus();
    },
  };
}
