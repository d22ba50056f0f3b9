// The board in the browser: what is known, what is looked at, and steps on their way to the backend.
//
// A backend has load() and commit(steps), which return a snapshot of the board, and picture(id), its images. One speaks
// to the server, the other lives in a report. A step shows at once; steps that are made while the backend computes are
// sent together.

import { count, el } from "./dom.js";
import { UNKNOWN, applyPatch } from "./operations.js";

const SIZE = "protoadapt-size";

export function createStore(backend) {
  const state = {
    pictures: [], classes: [], labels: new Map(), gone: new Set(), answers: null, answerClasses: [], next: [], suggested: new Set(), reasons: {},
    undo: null, redo: null, skipped: [], n_skipped: 0, calibrated: false, busy: 0, taking: false, version: 0,
  };
  const view = {
    scope: "all", query: "", order: "unsure", mode: "grid", size: Number(recall(SIZE)) || 148,
    focus: null, anchor: null, selection: new Set(), many: false, moved: new Set(),
  };
  const listeners = new Set();
  let waiting = [];
  let running = null;
  let announced = false;

  function changed() {
    if (announced) return;
    announced = true;
    queueMicrotask(() => {
      announced = false;
      for (const listener of listeners) listener();
    });
  }

  function take(snapshot) {
    const before = state.answers ? state.pictures.map((_, id) => factsOf(state, id).label) : null;
    state.pictures.length = Math.min(state.pictures.length, snapshot.since ?? 0);
    state.pictures.push(...snapshot.pictures);
    state.labels = new Map(Object.entries(snapshot.labels).map(([id, label]) => [Number(id), label]));
    state.gone = new Set(snapshot.gone);
    for (const key of ["classes", "undo", "redo", "skipped", "n_skipped"]) state[key] = snapshot[key];
    if ("answers" in snapshot) {
      for (const key of ["answers", "next", "reasons", "calibrated"]) state[key] = snapshot[key];
      state.suggested = new Set(state.next.slice(0, snapshot.suggested));
      state.answerClasses = snapshot.classes;
      view.moved = new Set(before && state.answers
        ? before.flatMap((label, id) => (label !== null && label !== factsOf(state, id).label ? [id] : [])) : []);
    }
    state.version++;
    view.selection = new Set([...view.selection].filter((id) => !state.gone.has(id)));
    if (view.focus !== null && state.gone.has(view.focus)) view.focus = null;
    changed();
  }

  async function run() {
    while (waiting.length && (await sent())) continue;
    running = null;
  }

  /** Sends all that waits; false where no server took it, so that it waits on: a step that did arrive is not taken twice. */
  async function sent() {
    const steps = waiting;
    waiting = [];
    state.busy = steps.length;
    changed();
    try {
      const snapshot = await backend.commit(steps, state.pictures.length);
      if (!waiting.length) take(snapshot);
      if (snapshot.conflict) store.say("This board was changed elsewhere. Here is the newest state.");
    } catch (error) {
      waiting = error.unsent ? [...steps, ...waiting] : [];
      const again = error.unsent && el("button", { type: "button", class: "again", on: { click: () => store.send() } }, "Try again");
      store.say(error.unsent ? `${error.message} ${count(waiting.length, "step")} not saved yet.` : error.message, "error", again || null);
      if (error.unsent) return false;
      await backend.load(0).then(take, () => {});
    } finally {
      state.busy = 0;
      changed();
    }
    return true;
  }

  const store = {
    state, view, backend, take, changed,
    say() {},
    onChange(listener) {
      listeners.add(listener);
    },
    async load(names = true) {
      take(await backend.load(state.pictures.length, names));
    },
    /** A step: shown at once, then sent. Resolves when the backend has answered everything. */
    step(patch, words) {
      applyPatch(state, patch);
      state.version++;
      state.undo = words;
      state.redo = null;
      return store.send({ patch, words });
    },
    send(...steps) {
      waiting.push(...steps);
      running ??= run();
      changed();
      return running;
    },
    look(part) {
      Object.assign(view, part);
      if ("size" in part) remember(SIZE, part.size);
      changed();
    },
  };
  return store;
}

/** What is known of a picture: its label, whether a person gave it, how sure the classifier is, the runner-up. */
export function factsOf(state, id) {
  const given = state.labels.get(id);
  const answers = state.answers;
  const answered = answers !== null && answers.label[id] >= 0 && id < answers.label.length;
  const second = answered && answers.second[id] >= 0 ? state.answerClasses[answers.second[id]] : null;
  const guess = answered ? state.answerClasses[answers.label[id]] : null;
  if (given !== undefined) {
    const none = given === UNKNOWN;
    return { label: none ? null : given, given: true, unknown: none, confidence: null, second: null, guess };
  }
  return {
    label: guess, given: false, unknown: answered && Boolean(answers.unknown[id]), second, guess,
    confidence: answered ? answers.confidence[id] : null, margin: answered ? answers.margin[id] : null,
  };
}

export function sureness(state, confidence) {
  if (confidence === null) return "";
  if (!state.calibrated) return confidence.toFixed(2);
  if (confidence < 0.005) return "< 1 %";
  return confidence >= 0.995 && confidence < 1 ? "> 99 %" : `${Math.round(100 * confidence)} %`;
}

/** What to say of a picture: its label, and how sure that is. */
export function wordsOn(state, facts) {
  if (facts.given) return facts.unknown ? ["None of the classes", "as you said"] : [facts.label, "labelled by you"];
  return facts.unknown ? [`Unknown, perhaps ${facts.label}`, ""] : [facts.label ?? "Not named yet", sureness(state, facts.confidence)];
}

/** Storage may be refused to a page (a private window, a file): then nothing is remembered. */
export function remember(key, value) {
  try {
    localStorage.setItem(key, value);
    return true;
  } catch {
    return false;
  }
}

export function recall(key) {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}
