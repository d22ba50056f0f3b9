// The board: puts the parts together. `parts` adds what only one of its two homes has: buttons, a start, details.

import { createClasses } from "./classes.js";
import { createClassDialog, createFullSize, createHelp } from "./dialogs.js";
import { count, el, icon, setAttribute, visible } from "./dom.js";
import { createGrid } from "./grid.js";
import { createInspector } from "./inspector.js";
import { listenToKeys } from "./keys.js";
import { createKinds } from "./kinds.js";
import { createMap } from "./map.js";
import { UNKNOWN, className, deletePatch, labelPatch, removePatch, renamePatch } from "./operations.js";
import { factsOf, firstOf, kindsOf } from "./store.js";
import { createTools } from "./tools.js";
import { groupsOf, summaryOf } from "./views.js";

const QUIET = 6000;

export function createBoard(store, { title, buttons = [], start = null, details = null, files = () => {}, summary: lead = "" }) {
  const { state, view, backend } = store;
  const frozen = Boolean(backend.frozen);

  // What is acted on: all chosen pictures, or the one that is looked at.
  const targets = () => (view.selection.size > 1 ? [...view.selection] : view.focus === null ? [] : [view.focus]);

  function label(name, ids = targets()) {
    if (!ids.length) return store.say("Choose a picture first.");
    const after = following(ids);
    const words = name === null ? "take back" : name === UNKNOWN ? "none of the classes" : `→ ${name}`;
    store.step(labelPatch(state, ids, name), `${count(ids.length, "picture")} ${words}`);
    go(after);
  }

  /** A whole group gets a label; the next group is asked about. */
  function labelKind(name, ids) {
    view.kind = null;
    if (view.scope === "kind") look("kinds");
    store.step(labelPatch(state, ids, name), `${count(ids.length, "picture")} ${name === UNKNOWN ? "none of the classes" : `→ ${name}`}`);
  }

  /** A step that takes something away: its message can undo it, and goes with the next step. */
  function undoable(patch, words, message) {
    store.step(patch, words);
    store.say(message, "note", el("button", { type: "button", class: "again", on: { click: act.undo } }, "Undo"));
    offered = words;
  }

  /** The picture to look at after these: the first of the queue, or the one behind them. */
  function following(ids) {
    if (view.scope === "next") return firstOf(state, ids);
    const order = grid.order();
    const last = Math.max(...ids.map((id) => order.indexOf(id)));
    return order[last + 1] ?? order[last] ?? null;
  }

  function go(id) {
    store.look({ focus: id, anchor: id, selection: new Set(id === null ? [] : [id]) });
    if (id !== null) queueMicrotask(() => queueMicrotask(() => grid.reveal(id)));
  }

  function pick(id, event) {
    const selection = new Set(view.selection);
    if (event.shiftKey && view.anchor !== null) grid.between(view.anchor, id).forEach((one) => selection.add(one));
    else if (event.ctrlKey || event.metaKey || view.many) {
      if (selection.has(id)) selection.delete(id);
      else selection.add(id);
    } else {
      selection.clear();
      selection.add(id);
    }
    store.look({ selection, focus: id, anchor: event.shiftKey ? view.anchor : id });
  }

  const act = {
    label, undo: () => store.send({ undo: 1 }), redo: () => store.send({ redo: 1 }),
    confirm() {
      const known = targets().filter((id) => !state.labels.has(id) && factsOf(state, id).label);
      const names = new Set(known.map((id) => factsOf(state, id).label));
      if (!known.length) return go(following(targets()));
      const after = following(targets());
      const labels = Object.fromEntries(known.map((id) => [id, factsOf(state, id).label]));
      store.step({ labels }, `confirm ${count(known.length, "picture")}${names.size === 1 ? ` of ${[...names][0]}` : ""}`);
      go(after);
    },
    second() {
      const { second } = view.focus === null ? {} : factsOf(state, view.focus);
      if (second) label(second);
    },
    unknown: () => label(UNKNOWN), clear: () => targets().length && label(null),
    remove() {
      const ids = targets();
      if (frozen || !ids.length) return;
      const after = following(ids);
      undoable(removePatch(ids), `leave out ${count(ids.length, "picture")}`, `${count(ids.length, "picture")} left out.`);
      go(after);
    },
    byNumber: (number) => (state.classes[number] ? label(state.classes[number]) : store.say("There is no such class yet.")),
    next() {
      if (view.scope !== "next") look("next");
      go(firstOf(state) ?? grid.order()[0] ?? null);
      grid.element.focus();
    },
    move(key, more) {
      const id = grid.neighbour(view.focus, key);
      if (id === null || id === undefined) return;
      const chosen = more ? new Set([...view.selection, ...grid.between(view.anchor ?? id, id)]) : new Set([id]);
      store.look({ focus: id, anchor: more ? view.anchor ?? id : id, selection: chosen });
      grid.reveal(id);
    },
    all: () => store.look({ selection: new Set(grid.order()), focus: view.focus ?? grid.order()[0] ?? null }),
    none: () => store.look({ selection: new Set(), focus: null, anchor: null }),
    open: () => full.toggle(), larger: () => full.zoom(1.5), smaller: () => full.zoom(1 / 1.5), zoomed: () => full.zoomed(), close: () => act.none(),
    async similar() {
      const id = view.focus;
      const found = id === null ? null : await backend.alike?.(id).catch((error) => store.say(error.message, "error"));
      if (!found) return;
      lookAt([{ title: "The most similar first", ids: [id, ...found.similar] }]);
      go(id);
    },
    async check() {
      const found = await backend.check().catch((error) => store.say(error.message, "error"));
      if (found?.length) lookAt(found);
      else if (found) store.say("No label looks wrong, and no picture is there twice.");
    },
    type: () => view.focus !== null && inspector.input.focus(),
    search: () => tools.search.focus(), focusGrid, help: () => help.showModal(),
    grid: () => store.look({ mode: "grid" }), map: () => store.look({ mode: "map" }),
  };

  /** Keys act on pictures again, also where the grid is hidden. */
  function focusGrid() {
    document.activeElement?.blur();
    grid.element.focus();
  }

  function look(scope) {
    if (scope !== "kind") view.kind = null;
    store.look({ scope, mode: view.mode === "map" ? "map" : "grid", focus: null, selection: new Set() });
    queueMicrotask(() => grid.top());
  }

  /** Shows what was found, groups of pictures with a title each. */
  function lookAt(found) {
    view.found = found;
    state.version++;
    look("found");
  }

  function create(text) {
    const { name, error } = className(text, state.classes);
    if (error) return void store.say(error, "error");
    if (targets().length) {
      label(name);
      focusGrid();
    } else if (!state.classes.includes(name)) store.step({ classes: [...state.classes, name] }, `new class ${name}`);
    return true;
  }

  const grid = createGrid(store, { pick, open: (id) => { go(id); full.toggle(); } });
  const map = createMap(store, {
    pick,
    choose: (ids, more) => store.look({ selection: new Set(more ? [...view.selection, ...ids] : ids), focus: ids[0] ?? null, anchor: ids[0] ?? null }),
  });
  const side = createClasses(store, { look, label, files, create, edit: (name) => editor.open(name) });
  const kinds = createKinds(store, { label: labelKind, look: (ids) => {
    view.kind = ids;
    look("kind");
  } });
  const inspector = createInspector(store, act);
  const full = createFullSize(store);
  const help = createHelp(frozen);
  const editor = createClassDialog(store, {
    rename: (from, to) => {
      if (view.scope === `class:${from}`) view.scope = `class:${to}`;
      store.step(renamePatch(state, from, to), `${from} → ${to}`);
    },
    remove: (name) => {
      if (view.scope === `class:${name}`) view.scope = "all";
      undoable(deletePatch(state, name), `delete ${name}`, `The class ${visible(name)} is deleted.`);
    },
  });
  listenToKeys(store, act, full.element);

  const button = (name, words, run) => el("button", { type: "button", class: "tool", "aria-label": words, title: words, on: { click: run } }, icon(name));
  const undo = button("undo", "Undo", act.undo);
  const redo = button("redo", "Redo", act.redo);
  const many = button("many", "Choose several by tapping", () => store.look({ many: !view.many }));
  const modes = ["grid", "map", ...(details ? ["about"] : [])].map((mode) => {
    const words = { grid: "Pictures", map: "Map", about: "Details" }[mode];
    return el("button", { type: "button", class: "mode", "aria-label": words, data: { mode }, on: { click: () => store.look({ mode }) } }, icon(mode), el("span", {}, words));
  });
  const tools = createTools(store);
  const status = el("p", { class: "status-line", role: "status" });
  const hint = frozen && el("p", { class: "status-line hint" }, "Corrections stay in this browser: save them for the next run of label.");
  const toast = el("div", { class: "toast", role: "alert", hidden: true });
  const empty = el("p", { class: "nothing", hidden: true }, "No picture here.");
  const heading = el("h1", {}, title);
  const header = el("header", { class: "bar-top" }, heading, el("div", { class: "modes", role: "group", "aria-label": "View" }, modes),
    el("div", { class: "tools" }, undo, redo, many, backend.check && button("check", "Check labels: wrong ones, near-duplicates, outliers", act.check), button("help", "Keys and help", act.help), buttons));
  const middle = el("main", { class: "middle" }, tools.element, status, hint, kinds.element, grid.element, empty, map.element, details);
  const element = el("div", { class: "board" }, header, side.element, middle, inspector.element, toast, full.element, help, editor.element);

  let quiet = 0;
  let offered = null; // the step that the message can undo
  store.say = (words, kind = "note", more = null) => {
    clearTimeout(quiet);
    offered = null;
    toast.replaceChildren(el("span", {}, words), more ?? "");
    toast.className = `toast ${kind}`;
    setAttribute(toast, "hidden", false);
    quiet = setTimeout(() => setAttribute(toast, "hidden", true), kind === "error" ? 2 * QUIET : QUIET);
  };

  let grouped = null;
  let groups = [];
  function show() {
    const any = state.pictures.length > state.gone.size || state.classes.length > 0;
    if (start) setAttribute(start, "hidden", any);
    element.classList.toggle("bare", Boolean(start) && !any);
    for (const mode of modes) setAttribute(mode, "aria-pressed", String(mode.dataset.mode === view.mode));
    if (view.scope === "kinds" && !state.busy && !kindsOf(state).length) return look(state.answers ? "next" : "all");
    setAttribute(grid.element, "hidden", view.mode !== "grid" || view.scope === "kinds");
    tools.show();
    if (details) setAttribute(details, "hidden", view.mode !== "about");
    if (state.title && heading.textContent !== state.title) heading.textContent = document.title = state.title;
    if (offered !== null && offered !== state.undo) setAttribute(toast, "hidden", true);
    undo.disabled = !state.undo;
    redo.disabled = !state.redo;
    for (const [one, words, what] of [[undo, "Undo", state.undo], [redo, "Redo", state.redo]]) {
      one.title = what ? `${words}: ${what}` : words;
      setAttribute(one, "aria-label", one.title);
    }
    setAttribute(many, "aria-pressed", String(view.many));
    const text = frozen ? lead : summaryOf(state, view);
    if (status.textContent !== text) status.textContent = text;
    element.classList.toggle("busy", state.busy > 0);
    element.classList.toggle("about-mode", view.mode === "about");
    const shown = [state.version, view.scope, view.kind, view.below, view.query, view.order].join("\0");
    if (shown !== grouped) [grouped, groups] = [shown, groupsOf(state, view)];
    kinds.show();
    grid.show(groups);
    setAttribute(empty, "hidden", view.mode !== "grid" || groups.some((group) => group.ids.length));
    side.show();
    inspector.show();
    map.show(grid.order());
    full.show();
  }
  store.onChange(show);
  if (start) middle.prepend(start);
  return { element, look, act, show, header };
}
