// Kinds that nobody named: each with some of its pictures, and one field that names all of them.

import { count, el, setAttribute, visible } from "./dom.js";
import { UNKNOWN, className } from "./operations.js";
import { kindsOf } from "./store.js";

const SHOWN = 12;

/** The cards. `label(name, ids)` names a whole group, `look(ids)` shows all of its pictures. */
export function createKinds(store, { label, look }) {
  const known = el("datalist", { id: "known-classes" });
  const list = el("div", {});
  const element = el("section", { class: "unnamed", "aria-label": "Kinds without a name" }, known, list);
  let cards = [];

  function card() {
    const words = el("span", {});
    const input = el("input", { type: "text", placeholder: "Name", maxlength: "80", autocomplete: "off", list: "known-classes" });
    const strip = el("div", { class: "strip" });
    const all = el("button", { type: "button", on: { click: () => look(one.ids) } });
    const none = el("button", { type: "button", on: { click: () => label(UNKNOWN, one.ids) } }, "None of the classes");
    const form = el("form", { class: "kind" }, el("label", {}, words, input), el("div", { class: "buttons" }, el("button", { type: "submit", class: "primary" }, "Name all"), all, none), strip);
    const one = { form, input, all, ids: [], show };
    input.addEventListener("focus", () => (store.view.kind = one.ids));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const { name, error } = className(input.value, store.state.classes);
      if (error) return store.say(error, "error");
      input.value = "";
      label(name, one.ids);
    });
    function show(ids) {
      if (ids.join() === one.ids.join()) return;
      one.ids = ids;
      words.textContent = `${count(ids.length, "picture")} ${ids.length === 1 ? "looks" : "look"} like a kind without a name: name it`;
      all.textContent = ids.length === 1 ? "Look at it" : `Look at all ${ids.length.toLocaleString("en")}`;
      strip.replaceChildren(...ids.slice(0, SHOWN).map((id) => el("img", { src: store.backend.picture(id).small, alt: "", loading: "lazy", title: visible(store.state.pictures[id].name) })));
    }
    return one;
  }

  /** A card goes on showing the group that it showed, with what was typed, though some pictures came or went. */
  function arrange(kinds) {
    const free = new Set(cards);
    const next = kinds.map((ids) => {
      const found = [...free].find((one) => one.ids.includes(ids[0]) || ids.includes(one.ids[0])) ?? card();
      free.delete(found);
      found.show(ids);
      return found;
    });
    if (next.length === cards.length && next.every((one, i) => one === cards[i])) return;
    const held = document.activeElement;
    const at = cards.findIndex((one) => one.form.contains(held));
    cards = next;
    list.replaceChildren(...cards.map((one) => one.form));
    if (at < 0) return;
    if (held.isConnected) held.focus();
    else cards[Math.min(at, cards.length - 1)]?.input.focus();
  }

  return {
    element,
    show() {
      const { state, view } = store;
      const shown = view.mode === "grid" && (view.scope === "kinds" || view.scope === "kind");
      setAttribute(element, "hidden", !shown);
      if (!shown) return;
      element.classList.toggle("one", view.scope === "kind");
      known.replaceChildren(...state.classes.map((value) => el("option", { value })));
      arrange(kindsOf(state).filter(([first]) => view.scope === "kinds" || view.kind.includes(first)));
      for (const one of cards) setAttribute(one.all, "hidden", view.scope === "kind");
    },
  };
}
