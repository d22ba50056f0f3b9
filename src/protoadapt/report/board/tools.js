// What is shown of the pictures in view, and how: search, order, confidence, size.

import { el, setAttribute } from "./dom.js";

const ORDERS = { unsure: "Least certain first", sure: "Most certain first", name: "By file name", date: "By date taken" };
const LIMITS = { all: ["Any confidence", 1], most: ["Below 95\u00a0%", 0.95], some: ["Below 80\u00a0%", 0.8], few: ["Below 60\u00a0%", 0.6] };

export function createTools(store) {
  const search = el("input", { type: "search", placeholder: "Search file or class", "aria-label": "Search file or class", autocomplete: "off" });
  search.addEventListener("input", () => store.look({ query: search.value }));
  const size = el("input", { type: "range", min: "80", max: "320", step: "4", value: String(store.view.size), "aria-label": "Size of the pictures" });
  size.addEventListener("input", () => store.look({ size: Number(size.value) }));
  const order = el("select", { "aria-label": "Order" }, Object.entries(ORDERS).filter(([value]) => value !== "date" || !store.backend.frozen).map(([value, words]) => el("option", { value }, words)));
  order.addEventListener("change", () => store.look({ order: order.value }));
  const below = el("select", { "aria-label": "Confidence" }, Object.entries(LIMITS).map(([value, [words]]) => el("option", { value }, words)));
  below.addEventListener("change", () => store.look({ below: LIMITS[below.value][1] }));
  const element = el("div", { class: "view-tools" }, search, order, below, size);
  return {
    element, search,
    show() {
      const { mode, scope } = store.view;
      setAttribute(element, "hidden", mode === "about");
      setAttribute(size, "hidden", mode !== "grid");
      setAttribute(order, "hidden", mode !== "grid" || scope === "next" || scope === "kinds");
      setAttribute(below, "hidden", !store.state.answers || scope === "kinds");
    },
  };
}
