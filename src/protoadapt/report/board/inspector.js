// The picture that is looked at: large, with its proposed class and the runner-up offered first. Several: small, side by side.

import { count, el, picture, setAttribute, visible, wholeName } from "./dom.js";
import { KEYS } from "./classes.js";
import { mark } from "./marks.js";
import { className } from "./operations.js";
import { factsOf, sureness, wordsOn } from "./store.js";

const [MOST_CHOSEN, MOMENT] = [60, 150];

/** The panel. `label(name)`, `confirm()`, `unknown()`, `clear()`, `remove()`, `open()`, `close()` act on what is chosen. */
export function createInspector(store, act) {
  const image = picture({ class: "whole" });
  const under = el("img", { alt: "", class: "under" }); // the small one, until the large one is there
  const large = el("button", { type: "button", class: "large", "aria-label": "Show the picture in full size (Space)", on: { click: act.open } }, under, image);
  const chosen = el("div", { class: "chosen" });
  const words = el("div", { class: "words" });
  const input = el("input", { type: "text", placeholder: "Class, or a new one", "aria-label": "Class of this picture", maxlength: "80", autocomplete: "off" });
  const choices = el("ul", { class: "choices" });
  const form = el("form", { class: "naming" }, input, choices);
  const others = el("div", { class: "others" });
  const close = el("button", { type: "button", class: "close", "aria-label": "Close the picture (Escape)", on: { click: act.close } }, "×");
  const element = el("aside", { class: "inspector", "aria-label": "Chosen picture", hidden: true }, close, large, chosen, words, form, others);

  input.addEventListener("input", () => draw());
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const typed = input.value.trim();
    const first = choices.querySelector("button")?.dataset.name;
    const { name, error } = className(typed, store.state.classes);
    input.value = "";
    if (typed && error) return store.say(error, "error");
    act.focusGrid();
    if (!typed) return act.confirm();
    // An unfinished word means the only class that begins so; else it is a new class.
    const exact = store.state.classes.includes(name);
    act.label(exact || !first || choices.childElementCount > 1 ? name : first);
  });

  function choice(name, note, primary = false, key = KEYS[store.state.classes.indexOf(name)]) {
    return el("li", {}, el("button", { type: "button", class: primary ? "choice primary" : "choice", data: { name }, on: { click: () => act.label(name) } },
      mark(store.state.classes.indexOf(name)), wholeName(name), note && el("span", { class: "sure" }, note), key && el("kbd", {}, key)),
    primary && el("div", { class: "beside" }, (examples[name] ?? []).map(beside)));
  }

  /** An example of a class, and how much the picture resembles it. */
  function beside([id, resemblance]) {
    const name = visible(store.state.pictures[id].name);
    return el("figure", {}, el("img", { src: store.backend.picture(id).small, alt: `Example ${name}`, title: name }), el("figcaption", {}, resemblance.toFixed(2)));
  }

  /** The first of the chosen pictures, drawn once for each choice. */
  let gathered = "";
  function gather(ids) {
    if (gathered === ids.join()) return;
    gathered = ids.join();
    chosen.replaceChildren(...ids.slice(0, MOST_CHOSEN).map((id) => el("img", { src: store.backend.picture(id).small, alt: "", title: visible(store.state.pictures[id].name) })),
      ids.length > MOST_CHOSEN ? el("p", { class: "file" }, `and ${ids.length - MOST_CHOSEN} more`) : "");
  }

  /** Why it is called that, and the examples that it resembles: asked for when nobody moves on for a moment. */
  let [explained, reasons, examples, wait] = ["", [], {}, 0];
  function explain(id) {
    const sign = `${id} ${store.state.version}`;
    if (!store.backend.alike || store.state.busy || sign === explained) return;
    if (!explained.startsWith(`${id} `)) [reasons, examples] = [[], {}];
    explained = sign;
    clearTimeout(wait);
    wait = id !== null && setTimeout(async () => {
      const found = await store.backend.alike(id).catch(() => null);
      if (!found || sign !== explained) return;
      ({ reasons, examples } = found);
      draw();
    }, MOMENT);
  }

  function draw() {
    const { state, view } = store;
    const many = view.selection.size > 1;
    const id = view.focus ?? (many ? [...view.selection][0] : null);
    setAttribute(element, "hidden", id === null);
    explain(many ? null : id);
    if (id === null) return;
    const facts = factsOf(state, id);
    const { name } = state.pictures[id];
    const { small, large: source, link } = store.backend.picture(id);
    setAttribute(large, "hidden", many);
    setAttribute(chosen, "hidden", !many);
    if (many) gather([...view.selection]);
    else if (image.getAttribute("src") !== source) {
      setAttribute(under, "src", small === source ? null : small);
      image.src = source;
    }
    image.alt = `Picture ${visible(name)}`;
    const file = el("bdi", { class: "path" }, visible(name));
    const [status, note] = many ? [`${count(view.selection.size, "picture")} chosen`, ""] : wordsOn(state, facts);
    words.replaceChildren(el("p", { class: "status" }, !many && mark(facts.unknown ? -1 : state.classes.indexOf(facts.label)), el("strong", {}, el("bdi", {}, status)), el("span", {}, note)),
      !many && !facts.given && state.reasons[id] ? el("p", { class: "why" }, `Suggested: ${state.reasons[id]}`) : "",
      many ? "" : el("p", { class: "file" }, link ? el("a", { href: link, target: "_blank", rel: "noopener" }, file) : file),
      ...(many ? [] : reasons.map((reason) => el("p", { class: "file" }, reason))));
    const typed = input.value.trim().toLowerCase();
    const first = many || facts.given || typed ? [] : [...new Set([facts.label, facts.second, ...Object.keys(examples)])].filter((one) => state.classes.includes(one));
    const second = facts.second && state.answers ? Math.max(0, facts.confidence - facts.margin) : null;
    const notes = { [facts.second ?? ""]: sureness(second), [facts.label ?? ""]: sureness(facts.confidence) };
    const rest = state.classes.filter((one) => !first.includes(one) && (!typed || one.toLowerCase().startsWith(typed)));
    const inside = typed ? state.classes.filter((one) => !rest.includes(one) && one.toLowerCase().includes(typed)) : [];
    choices.replaceChildren(...first.map((one) => choice(one, notes[one], true, { [facts.second]: "R", [facts.label]: "Enter" }[one])), ...[...rest, ...inside].map((one) => choice(one)));
    const button = (text, key, run) => el("button", { type: "button", on: { click: run } }, text, el("kbd", {}, key));
    const labelled = many ? [...view.selection].some((one) => state.labels.has(one)) : facts.given;
    others.replaceChildren(...[button("None of these", "U", act.unknown), labelled && button("Take my label back", "⌫", act.clear),
      !many && store.backend.alike && button("Similar", "F", act.similar), !store.backend.frozen && button("Leave out", "Del", act.remove)].filter(Boolean));
  }

  return { element, input, show: draw };
}
