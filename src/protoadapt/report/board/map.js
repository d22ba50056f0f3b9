// All pictures in a plane: similar ones lie close together. A line drawn around some of them chooses them.

import { count, el, fileName, setAttribute } from "./dom.js";
import { colourClass, outline, starOutline } from "./marks.js";
import { factsOf } from "./store.js";

const [EDGE, REACH, AGAIN] = [36, 14, 1500];
const STAR = 9;
const NAMES = { pca: "PCA", tsne: "t-SNE" };

/** The map. `pick(id, event)` for a click on a picture, `choose(ids, more)` for a line drawn around some. */
export function createMap(store, { pick, choose }) {
  const canvas = el("canvas", { role: "img" });
  const tip = el("div", { class: "tip", hidden: true });
  const said = el("span", { class: "said", role: "status" });
  const kinds = el("div", { class: "kinds", role: "group", "aria-label": "Projection" });
  const note = el("p", { class: "note" }, "Drag around pictures to choose them (ringed; the panel shows them). Outlined ones are labelled by you. Scroll to zoom, double-click to reset. Stars are class prototypes: dashed lines lead from where they started to where they ended.");
  const stage = el("div", { class: "stage" }, canvas, tip);
  const element = el("section", { class: "map", "aria-label": "Map of all pictures", hidden: true }, el("div", { class: "map-tools" }, kinds, said), stage, note);
  const zoom = { scale: 1, x: 0, y: 0 };
  const plane = { kind: "pca", points: [], paths: {}, at: new Map() };
  let line = null;
  let hovered = null;
  let loaded = "";
  let timer = 0;
  let inView = new Set();

  async function load(kind = plane.kind) {
    clearTimeout(timer);
    said.textContent = "The map is being computed …";
    const found = await store.backend.map(kind).catch((error) => ({ error: error.message }));
    if (found.error) return void (said.textContent = found.error);
    if (!found.ready) {
      said.textContent = "t-SNE is being computed …";
      timer = setTimeout(() => load(kind), AGAIN);
      return;
    }
    said.textContent = "";
    Object.assign(plane, found, { kind });
    Object.assign(zoom, { scale: 1, x: 0, y: 0 });
    show(true);
  }

  function tools() {
    const offered = store.backend.maps ?? Object.keys(NAMES);
    kinds.replaceChildren(...offered.map((kind) => el("button", { type: "button", "aria-pressed": String(kind === plane.kind), on: { click: () => load(kind) } }, NAMES[kind])));
    setAttribute(kinds, "hidden", offered.length < 2);
  }

  function project() {
    const box = stage.getBoundingClientRect();
    const known = [...plane.points.filter(Boolean), ...Object.values(plane.paths).flat()];
    const [xs, ys] = [known.map(([x]) => x), known.map(([, y]) => y)];
    const range = (values) => [values.reduce((a, b) => Math.min(a, b), Infinity), values.reduce((a, b) => Math.max(a, b), -Infinity)];
    const [[x0, x1], [y0, y1]] = [range(xs), range(ys)];
    const scale = zoom.scale * Math.min((box.width - 2 * EDGE) / Math.max(x1 - x0, 1e-9), (box.height - 2 * EDGE) / Math.max(y1 - y0, 1e-9));
    return ([x, y]) => [box.width / 2 + scale * (x - (x0 + x1) / 2) + zoom.x, box.height / 2 + scale * (y - (y0 + y1) / 2) + zoom.y];
  }

  function draw() {
    const box = stage.getBoundingClientRect();
    if (!box.width || !plane.points.length) return;
    const dense = window.devicePixelRatio || 1;
    [canvas.width, canvas.height] = [box.width * dense, box.height * dense];
    const pen = canvas.getContext("2d");
    pen.scale(dense, dense);
    const style = getComputedStyle(element);
    const colours = Object.fromEntries(["none", ...Array(8).keys()].map((i) => (i === "none" ? ["none", style.getPropertyValue("--none")] : [`c${i}`, style.getPropertyValue(`--c${i}`)])));
    const [ink, card, link] = ["--ink", "--card", "--link"].map((name) => style.getPropertyValue(name));
    const to = project();
    const { state, view } = store;
    const few = plane.points.length < 600;
    plane.at = new Map();
    for (let id = 0; id < state.pictures.length; id++) {
      if (state.gone.has(id) || !plane.points[id]) continue;
      const [x, y] = to(plane.points[id]);
      plane.at.set(id, [x, y]);
      const facts = factsOf(state, id);
      const index = facts.unknown ? -1 : state.classes.indexOf(facts.label);
      const chosen = view.selection.has(id) || view.focus === id;
      const apart = !inView.has(id); // of another class, or not searched for
      const size = (few ? 5 : 3.6) + (facts.given ? 1.2 : 0);
      const path = new Path2D(outline(index, x, y, size));
      pen.globalAlpha = apart ? 0.1 : chosen || facts.given ? 1 : 0.55;
      pen.fillStyle = colours[colourClass(index)];
      pen.fill(path);
      pen.globalAlpha = 1;
      if (facts.given && !apart) {
        [pen.lineWidth, pen.strokeStyle] = [1.4, ink];
        pen.stroke(path);
      }
      if (!chosen) continue;
      [pen.lineWidth, pen.strokeStyle] = [2.5, link]; // a ring around what is chosen, labelled or not
      pen.stroke(new Path2D(outline(-1, x, y, size + 4)));
    }
    pen.globalAlpha = 1;
    const ends = Object.entries(plane.paths).map(([name, steps]) => [name, path(pen, steps.map(to), colours[colourClass(state.classes.indexOf(name))], ink, card)]);
    const taken = ends.map(([, [x, y]]) => [x - STAR, y - STAR, x + STAR, y + STAR]);
    for (const [name, end] of ends) taken.push(label(pen, name.slice(0, 24), end, taken, ink, card));
    if (line) lasso(pen, ink);
    setAttribute(canvas, "aria-label", `Map of ${count(plane.at.size, "picture")} by ${NAMES[plane.kind]}. The grid shows the same pictures for the keyboard.`);
  }

  /** Draws the path of a prototype, and returns its end. */
  function path(pen, points, colour, ink, card) {
    pen.strokeStyle = colour;
    pen.lineWidth = 2;
    pen.setLineDash([5, 4]);
    pen.beginPath();
    points.forEach(([x, y]) => pen.lineTo(x, y));
    pen.stroke();
    pen.setLineDash([]);
    [points[0], points.at(-1)].forEach(([x, y], end) => {
      const star = new Path2D(starOutline(x, y, STAR));
      pen.fillStyle = end ? colour : card;
      pen.fill(star);
      pen.strokeStyle = end ? ink : colour;
      pen.lineWidth = 1.5;
      pen.stroke(star);
    });
    return points.at(-1);
  }

  /** Writes a name where none of the boxes [left, top, right, bottom] is, as near to its star as it can, and returns its own. */
  function label(pen, name, [x, y], taken, ink, card) {
    pen.font = "600 12px system-ui, sans-serif";
    const wide = pen.measureText(name).width;
    const rows = [...Array(40).keys()].map((i) => (i % 2 ? 1 : -1) * Math.ceil(i / 2) * 7);
    const boxes = rows.flatMap((row) => [x + STAR + 3, x - STAR - 3 - wide].map((left) => [left, y + row - 7, left + wide, y + row + 7]));
    const free = ([left, top, right, bottom]) => !taken.some(([a, b, c, d]) => left < c && a < right && top < d && b < bottom);
    const box = boxes.find(free) ?? boxes[0];
    [pen.lineWidth, pen.strokeStyle, pen.fillStyle] = [4, card, ink];
    pen.strokeText(name, box[0], box[3] - 3);
    pen.fillText(name, box[0], box[3] - 3);
    return box;
  }

  function lasso(pen, ink) {
    pen.beginPath();
    line.forEach(([x, y]) => pen.lineTo(x, y));
    pen.closePath();
    pen.globalAlpha = 0.08;
    pen.fillStyle = ink;
    pen.fill();
    pen.globalAlpha = 1;
    pen.strokeStyle = ink;
    pen.lineWidth = 1.5;
    pen.stroke();
  }

  function nearest(x, y) {
    let [best, id] = [REACH ** 2, null];
    for (const [other, [a, b]] of plane.at) {
      const far = (a - x) ** 2 + (b - y) ** 2;
      if (far < best) [best, id] = [far, other];
    }
    return id;
  }

  function inside([x, y]) {
    let odd = false;
    for (let i = 0, j = line.length - 1; i < line.length; j = i++) {
      const [[a, b], [c, d]] = [line[i], line[j]];
      if (b > y !== d > y && x < ((c - a) * (y - b)) / (d - b) + a) odd = !odd;
    }
    return odd;
  }

  function hover(id, x, y) {
    if (id === hovered) return;
    hovered = id;
    setAttribute(tip, "hidden", id === null);
    if (id === null) return;
    const facts = factsOf(store.state, id);
    tip.replaceChildren(el("img", { src: store.backend.picture(id).small, alt: "" }), fileName(store.state.pictures[id].name), el("strong", {}, facts.unknown ? "unknown" : facts.label ?? "not named"));
    tip.style.left = `${Math.min(x + 16, stage.clientWidth - 170)}px`;
    tip.style.top = `${Math.min(y + 16, stage.clientHeight - 210)}px`;
  }

  const spot = (event) => {
    const box = stage.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    line = [spot(event)];
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = spot(event);
    if (!line) return hover(nearest(x, y), x, y);
    line.push([x, y]);
    hover(null);
    draw();
  });
  canvas.addEventListener("pointerup", (event) => {
    if (!line) return;
    const long = line.reduce((sum, [x, y], i) => sum + (i ? Math.hypot(x - line[i - 1][0], y - line[i - 1][1]) : 0), 0);
    if (long > 12) choose([...plane.at].filter(([, point]) => inside(point)).map(([id]) => id), event.shiftKey || event.ctrlKey || event.metaKey);
    else {
      const id = nearest(...spot(event));
      if (id !== null) pick(id, event);
    }
    line = null;
    draw();
  });
  canvas.addEventListener("pointerleave", () => hover(null));
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const [x, y] = spot(event);
    const factor = Math.exp(-event.deltaY / 400);
    const scale = Math.min(40, Math.max(1, zoom.scale * factor));
    const [cx, cy] = [x - stage.clientWidth / 2, y - stage.clientHeight / 2];
    zoom.x = scale === 1 ? 0 : cx - ((cx - zoom.x) * scale) / zoom.scale;
    zoom.y = scale === 1 ? 0 : cy - ((cy - zoom.y) * scale) / zoom.scale;
    zoom.scale = scale;
    draw();
  }, { passive: false });
  canvas.addEventListener("dblclick", () => {
    Object.assign(zoom, { scale: 1, x: 0, y: 0 });
    draw();
  });
  new ResizeObserver(() => draw()).observe(stage);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw());

  function show(fresh = false) {
    const on = store.view.mode === "map";
    setAttribute(element, "hidden", !on);
    if (!on) return;
    const sign = `${store.state.pictures.length - store.state.gone.size} ${store.state.classes.join("\0")}`;
    if (!fresh && sign !== loaded && !store.state.busy) {
      loaded = sign;
      load();
    }
    tools();
    draw();
  }

  return {
    element,
    show(ids) {
      inView = new Set(ids);
      show();
    },
  };
}
