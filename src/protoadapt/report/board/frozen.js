// The board in a report: no server, so the labels stand still, and corrections are recorded.

import { createBoard } from "./board.js";
import { count, el, icon } from "./dom.js";
import { download, labelsCsv } from "./label_csv.js";
import { applyPatch } from "./operations.js";
import { createStore, remembered, remember } from "./store.js";

function frozenBackend(data) {
  const memory = `protoadapt-corrections ${data.title} ${data.made}`;
  const given = new Map(data.given.flatMap((label, id) => (label === null ? [] : [[id, label]])));
  const kept = { labels: new Map(given), classes: [...data.classes], gone: new Set() };
  const [done, undone] = [[], []];
  const answers = Object.fromEntries(["label", "second", "confidence", "margin", "unknown"].map((key) => [key, data[key]]));
  const saved = JSON.parse(remembered(memory) ?? "null");
  if (saved) applyPatch(kept, saved);

  const changes = () => [...new Set([...kept.labels.keys(), ...given.keys()])].filter((id) => kept.labels.get(id) !== given.get(id));
  const snapshot = (since = 0) => ({
    since, pictures: data.files.slice(since).map((name) => ({ name })), classes: [...kept.classes], labels: Object.fromEntries(kept.labels), gone: [],
    answers, next: data.next.filter((id) => !kept.labels.has(id)), suggested: data.next.slice(0, data.suggested).filter((id) => !kept.labels.has(id)).length, reasons: data.reasons, groups: data.groups, calibrated: data.calibrated, skipped: [], n_skipped: 0,
    undo: done.at(-1)?.words ?? null, redo: undone.at(-1)?.words ?? null,
  });
  function turn(from, to) {
    const step = from.pop();
    if (step) to.push({ words: step.words, patch: applyPatch(kept, step.patch) });
  }
  return {
    frozen: true, maps: data.map ? ["pca"] : [], changes, kept,
    load: async (since = 0) => snapshot(since),
    async commit(steps, since) {
      for (const { patch, words, undo, redo } of steps) {
        if (undo) turn(done, undone);
        else if (redo) turn(undone, done);
        else {
          done.push({ words, patch: applyPatch(kept, patch) });
          undone.length = 0;
        }
      }
      const labels = Object.fromEntries(changes().map((id) => [id, kept.labels.get(id) ?? null]));
      remember(memory, JSON.stringify({ labels, classes: kept.classes }));
      return snapshot(since);
    },
    picture: (id) => ({ small: data.small[id], large: data.large[id] ?? data.small[id], link: data.links[id] ?? null }),
    map: async () => ({ ready: true, ...(data.map ?? { points: [], paths: {} }) }),
  };
}

/** What people said, as a csv of `label`. */
export function correctionsCsv(data, labels) {
  return labelsCsv(data.files.flatMap((file, id) => {
    const label = labels.get(id);
    return label === undefined || (label === data.given[id] && !data.origin[id]) ? [] : [[file, label, data.origin[id] ?? data.correction]];
  }));
}

function save(store, data) {
  const { kept, changes } = store.backend;
  if (!changes().length) return store.say("There is nothing to save yet: correct or confirm a picture first.");
  download(new Blob([correctionsCsv(data, kept.labels)], { type: "text/csv" }), "corrections.csv");
  store.say(`${count(changes().length, "correction")} saved. Run label again with one more --support corrections.csv.`);
}

function main() {
  const data = JSON.parse(document.getElementById("board-data").textContent);
  const details = document.getElementById("details");
  const store = createStore(frozenBackend(data));
  const number = el("span", { class: "number" });
  const saving = el("button", { type: "button", class: "tool wide", id: "save-corrections", "aria-label": "Save corrections", on: { click: () => save(store, data) } }, icon("save"), el("span", {}, "Save corrections"), number);
  const board = createBoard(store, { title: [data.title, el("small", {}, /^\d{4}-\d\d-\d\d/.exec(data.made)?.[0])], buttons: [saving], details, summary: data.summary });
  document.body.append(board.element);
  store.onChange(() => (number.textContent = store.backend.changes().length || ""));
  details.addEventListener("click", (event) => {
    const target = event.target.closest("a[href^='#class-']");
    if (!target) return;
    event.preventDefault();
    board.look(`class:${data.classes[Number(target.hash.slice(7))]}`);
    store.look({ mode: "grid" });
  });
  if (/^#(counts|motion|skipped|provenance)$/.test(location.hash)) store.look({ mode: "about" });
  else if (data.suggested) store.look({ scope: "next" });
  store.load();
}

main();
