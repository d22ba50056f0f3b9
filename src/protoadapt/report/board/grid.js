// The pictures: a grid of which only what is seen is in the page, so that five thousand are as smooth as fifty.

import { count, differsAt, el, fileName, nameOf, picture, setAttribute, visible } from "./dom.js";
import { colourClass, mark } from "./marks.js";
import { factsOf, sureness } from "./store.js";

const [GAP, HEAD, CAPTION, REASON, BEYOND] = [10, 46, 44, 30, 400];

/** The grid. `pick(id, event)` is called for a click, `open(id)` for a double click. */
export function createGrid(store, { pick, open }) {
  const sheet = el("div", { class: "sheet", role: "presentation" });
  const list = el("div", {
    class: "grid", role: "listbox", tabindex: "0", "aria-multiselectable": "true", "aria-label": "Pictures", id: "grid",
  }, sheet);
  const shown = new Map();
  let rows = [];
  let order = [];
  let places = new Map();
  let groups = [];
  let size = 0;

  /** Lays everything out anew; what is looked at, or else the first picture seen, stays where it is on the screen. */
  function layout() {
    const held = [store.view.focus, firstSeen()].find((id) => seen(id));
    const before = held === undefined ? 0 : rows[places.get(held).row].top - list.scrollTop;
    arrange();
    if (places.has(held)) list.scrollTop = rows[places.get(held).row].top - before;
    if (held === store.view.focus) reveal(held);
    else render();
  }

  function seen(id) {
    const here = places.get(id);
    return here && rows[here.row].top + rows[here.row].height > list.scrollTop && rows[here.row].top < list.scrollTop + list.clientHeight;
  }

  function firstSeen() {
    return list.scrollTop ? rows.find((row) => row.ids && row.top >= list.scrollTop)?.ids[0] : undefined;
  }

  function arrange() {
    const width = Math.max(80, list.clientWidth - 2 * GAP);
    const columns = Math.max(1, Math.floor((width + GAP) / (store.view.size + GAP)));
    const side = (width - GAP * (columns - 1)) / columns;
    let top = 0;
    [rows, order, places] = [[], [], new Map()];
    for (const group of groups) {
      rows.push({ top, height: HEAD, group });
      top += HEAD;
      for (let start = 0; start < group.ids.length; start += columns) {
        const ids = group.ids.slice(start, start + columns);
        ids.forEach((id, column) => places.set(id, { row: rows.length, column, index: order.length + column }));
        order.push(...ids);
        const height = side + CAPTION + (group.kind === "queue" ? REASON : 0);
        rows.push({ top, height, ids, side, kind: group.kind });
        top += height + GAP;
      }
    }
    sheet.style.height = `${top}px`;
  }

  /** Puts into the page what is seen, or `all`. Where it was only `scrolled`, what is there already stays as it is. */
  function render({ all = false, scrolled = false } = {}) {
    const [from, to] = all ? [0, Infinity]
      : [list.scrollTop - BEYOND, list.scrollTop + list.clientHeight + BEYOND];
    const wanted = new Set();
    let first = 0;
    for (let end = rows.length; first < end;) {
      const middle = (first + end) >> 1;
      if (rows[middle].top + rows[middle].height < from) first = middle + 1;
      else end = middle;
    }
    for (let i = first; i < rows.length && rows[i].top <= to; i++) {
      const row = rows[i];
      if (row.group) {
        const key = `head ${row.group.title} ${row.group.index}`;
        wanted.add(key);
        if (!(scrolled && shown.has(key))) place(key, () => heading(row.group), 0, row.top, null, headSign(row.group));
        continue;
      }
      row.ids.forEach((id, column) => {
        wanted.add(id);
        if (!(scrolled && shown.has(id))) place(id, () => tile(id, row.kind), column * (row.side + GAP), row.top, row, tileSign(id, row.kind));
      });
    }
    for (const [key, element] of shown) {
      if (wanted.has(key)) continue;
      element.remove();
      shown.delete(key);
    }
    const focus = store.view.focus;
    setAttribute(list, "aria-activedescendant", shown.has(focus) ? `picture-${focus}` : null);
  }

  function place(key, make, x, y, row, sign) {
    let element = shown.get(key);
    if (!element || element.dataset.sign !== sign) {
      const fresh = make();
      fresh.dataset.sign = sign;
      if (element) element.replaceWith(fresh);
      else sheet.append(fresh);
      shown.set(key, (element = fresh));
    }
    element.style.transform = `translate(${x}px, ${y}px)`;
    if (row) {
      element.style.width = `${row.side}px`;
      element.style.height = `${row.height}px`;
    }
    if (typeof key === "number") state(element, key);
  }

  function state(element, id) {
    const { focus, selection, moved } = store.view;
    element.setAttribute("aria-selected", selection.has(id) || focus === id);
    element.classList.toggle("focus", focus === id);
    element.classList.toggle("selected", selection.has(id));
    element.classList.toggle("moved", moved.has(id));
    element.setAttribute("aria-posinset", places.get(id).index + 1);
    element.setAttribute("aria-setsize", order.length);
  }

  function headSign(group) {
    return `${group.kind}${group.index}${group.ids.length}`;
  }

  function heading(group) {
    return el("div", { class: "group", "aria-hidden": "true" }, group.kind === "class" && mark(group.index),
      nameOf(group.title, differsAt(group.title, store.state.classes)), el("span", { class: "number" }, count(group.ids.length, "picture")));
  }

  function tileSign(id, kind) {
    const facts = factsOf(store.state, id);
    const index = store.state.classes.indexOf(facts.label);
    return [store.state.pictures[id].name, facts.label, index, facts.given, facts.unknown, facts.confidence, facts.kind, kind, store.state.reasons[id]].join("\0");
  }

  function tile(id, kind) {
    const { state: known } = store;
    const facts = factsOf(known, id);
    const { name } = known.pictures[id];
    const index = known.classes.indexOf(facts.label);
    const sure = facts.kind === null ? sureness(facts.confidence) : "";
    const image = picture({ src: store.backend.picture(id).small, decoding: "async", draggable: "false" });
    const words = facts.kind !== null ? "no name yet" : facts.unknown ? (facts.given ? "none of these" : `${facts.label}?`) : facts.label ?? "not named";
    const spoken = [visible(name), facts.unknown && facts.kind === null ? `unknown${facts.label ? `, perhaps ${facts.label}` : ""}` : words,
      facts.given ? "labelled by you" : facts.unknown ? "" : sure].filter(Boolean).join(", ");
    return el("div", {
      class: `tile ${colourClass(facts.unknown ? -1 : index)}${facts.given ? " given" : ""}${facts.unknown ? " unknown" : ""}`,
      id: `picture-${id}`, role: "option", "aria-label": spoken, draggable: "true", title: visible(name), data: { id },
    }, image, facts.given && el("span", { class: "badge", "aria-hidden": "true" }, "yours"),
    el("span", { class: "line" }, mark(facts.unknown ? -1 : index), nameOf(words, differsAt(facts.label ?? words, known.classes))),
    el("span", { class: "file" }, fileName(name.split("/").pop()), el("span", { class: "sure" }, sure)),
    kind === "queue" && el("span", { class: "file reason" }, known.reasons[id]));
  }

  /** The picture that an arrow key leads to. */
  function neighbour(id, key) {
    if (!order.length) return null;
    const here = places.get(id);
    if (!here) return key === "End" ? order.at(-1) : order[0];
    const last = order.length - 1;
    const page = Math.max(1, Math.floor(list.clientHeight / ((rows[here.row].height || 1) + GAP)));
    const vertical = { ArrowUp: -1, ArrowDown: 1, PageUp: -page, PageDown: page }[key];
    if (!vertical) return order[{ ArrowLeft: Math.max(0, here.index - 1), ArrowRight: Math.min(last, here.index + 1), Home: 0, End: last }[key]];
    let row = here.row;
    for (let left = Math.abs(vertical); left;) {
      const next = row + Math.sign(vertical);
      if (next < 0 || next >= rows.length) break;
      row = next;
      if (rows[row].ids) left--;
    }
    if (!rows[row].ids) row = here.row;
    return rows[row].ids[Math.min(here.column, rows[row].ids.length - 1)];
  }

  function reveal(id) {
    const here = places.get(id);
    if (!here) return render();
    const { top, height } = rows[here.row];
    const above = here.row && rows[here.row - 1].group ? HEAD : GAP;
    if (top - above < list.scrollTop) list.scrollTop = top - above;
    else if (top + height + GAP > list.scrollTop + list.clientHeight) list.scrollTop = top + height + GAP - list.clientHeight;
    render();
  }

  let asked = false;
  list.addEventListener("scroll", () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      render({ scrolled: true });
    });
  }, { passive: true });
  list.addEventListener("click", (event) => {
    const hit = event.target.closest(".tile");
    if (hit) pick(Number(hit.dataset.id), event);
  });
  list.addEventListener("dblclick", (event) => {
    const hit = event.target.closest(".tile");
    if (hit) open(Number(hit.dataset.id));
  });
  list.addEventListener("dragstart", (event) => {
    const id = Number(event.target.closest(".tile")?.dataset.id);
    if (!store.view.selection.has(id)) store.look({ selection: new Set([id]), focus: id, anchor: id });
    event.dataTransfer.setData("application/x-protoadapt", "pictures");
    event.dataTransfer.effectAllowed = "move";
  });
  new ResizeObserver(() => layout()).observe(list);
  addEventListener("beforeprint", () => {
    sheet.replaceChildren();
    shown.clear();
    render({ all: true }); // in order
  });
  addEventListener("afterprint", () => render());

  return {
    element: list, neighbour, reveal, order: () => order,
    show(fresh) {
      const same = fresh === groups && store.view.size === size;
      [groups, size] = [fresh, store.view.size];
      if (same) render(); // something else was chosen
      else layout();
    },
    /** The ids between two pictures, both included, in the order of the page. */
    between(one, other) {
      const [a, b] = [one, other].map((id) => places.get(id)?.index ?? 0).sort((x, y) => x - y);
      return order.slice(a, b + 1);
    },
    top() {
      list.scrollTop = 0;
    },
  };
}
