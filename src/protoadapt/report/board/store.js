// The board in the browser: what is known, what is looked at, and steps on their way to the backend.
//
// A backend has load() and commit(steps), which return a snapshot of the board, and picture(id), its images. One speaks
// to the server, the other lives in a report. A step shows at once; steps that are made while the backend computes are
// sent together.

import { UNKNOWN, applyPatch } from "./operations.js";

const SIZE = "protoadapt-size";
const [PAUSE, LONGEST_PAUSE] = [1000, 30000];

export function createStore(backend) {
  const state = {
    pictures: [], classes: [], labels: new Map(), gone: new Set(), answers: null, answerClasses: [], next: [], suggested: new Set(), reasons: {}, title: "",
    groups: [], kindOf: new Map(), findings: [], // pictures that look like kinds without a name, by group
    undo: null, redo: null, calibrated: false, busy: 0, taking: false, version: 0,
    unsaved: 0, lost: false, // steps that no server took, and whether the board is no longer there
  };
  const view = {
    scope: "all", query: "", below: 1, order: "unsure", mode: "grid", size: Number(remembered(SIZE)) || 148,
    focus: null, anchor: null, selection: new Set(), many: false, moved: new Set(), found: [], kind: null, // the group that somebody looks at
  };
  const listeners = new Set();
  let waiting = [];
  let stuck = null; // steps that were sent without an answer
  let running = null;
  let retry = 0;
  let pause = PAUSE;
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
    for (const key of ["classes", "undo", "redo"]) state[key] = snapshot[key];
    state.title = snapshot.title ?? "";
    if ("answers" in snapshot) {
      const held = view.scope === "next" && snapshot.next.includes(view.focus) && (state.suggested.has(view.focus) || firstOf(state) === view.focus)
        ? [view.focus] : [];
      const why = held.filter((id) => state.reasons[id]).map((id) => [id, state.reasons[id]]);
      for (const key of ["answers", "calibrated"]) state[key] = snapshot[key];
      // A picture of the queue that somebody looks at, and may be answering just now, stays at its head.
      state.next = [...new Set([...held, ...snapshot.next])];
      state.suggested = new Set([...held, ...snapshot.next.slice(0, snapshot.suggested)]);
      state.reasons = { ...Object.fromEntries(why), ...snapshot.reasons };
      state.answerClasses = snapshot.classes;
      state.findings = snapshot.findings ?? [];
      takeGroups(snapshot.groups ?? []);
      view.moved = new Set(before && state.answers
        ? before.flatMap((label, id) => (label !== null && !state.gone.has(id) && label !== factsOf(state, id).label ? [id] : [])) : []);
    }
    state.version++;
    view.selection = new Set([...view.selection].filter((id) => !state.gone.has(id)));
    if (view.focus !== null && state.gone.has(view.focus)) view.focus = null;
    changed();
  }

  /** The group that somebody looks at, and may be typing a name for, stays as it is, in its place. */
  function takeGroups(groups) {
    const held = new Set(view.kind);
    const at = kindsOf(state).findIndex((ids) => ids.some((id) => held.has(id)));
    state.groups = groups.map((ids) => ids.filter((id) => !held.has(id)));
    if (at >= 0) state.groups.splice(at, 0, [...held]);
    state.kindOf = new Map(state.groups.flatMap((ids, index) => ids.map((id) => [id, index])));
  }

  async function run() {
    clearTimeout(retry);
    while ((stuck || waiting.length) && (await sent())) pause = PAUSE;
    running = null;
    if (!state.unsaved || state.lost) return;
    retry = setTimeout(() => store.send(), pause);
    pause = Math.min(2 * pause, LONGEST_PAUSE);
  }

  /**
   * Sends all that waits; false where no server took it. It then waits on, and is sent again apart from later steps: the
   * server refuses a step that did arrive by its revision, and the later ones must not be refused with it.
   */
  async function sent() {
    const steps = stuck ?? waiting.splice(0);
    stuck = null;
    state.busy = steps.length;
    changed();
    try {
      const snapshot = await backend.commit(steps, state.pictures.length);
      if (!waiting.length) take(snapshot);
      if (state.unsaved && !waiting.length) store.say("Everything is saved.");
      [state.unsaved, state.lost] = [waiting.length && state.unsaved, false];
      if (snapshot.conflict) store.say("This board was changed elsewhere. Here is the newest state.");
    } catch (error) {
      if (error.unsent) {
        stuck = steps;
        if (error.lost) store.lose(error.message);
        else if (!state.unsaved) store.say(error.message, "error");
        state.unsaved = steps.length + waiting.length;
        return false;
      }
      [waiting, state.unsaved] = [[], 0];
      store.say(error.message, "error");
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
      if (stuck || waiting.length) running ??= run();
      changed();
      return running;
    },
    /** The board is not on the server any more: what this page knows is all there is. */
    lose(why) {
      if (!state.lost) store.say(`${why} Download the labels that are still on this page: the button is above.`, "error");
      state.lost = true;
      changed();
    },
    /** Sends what waits; whether everything is saved then. */
    async saved() {
      await store.send();
      return !stuck && !waiting.length;
    },
    look(part) {
      Object.assign(view, part);
      if ("size" in part) remember(SIZE, part.size);
      changed();
    },
  };
  return store;
}

/** The first picture of the queue that has no answer yet, apart from these. */
export function firstOf(state, besides = []) {
  return state.next.find((id) => !state.labels.has(id) && !state.gone.has(id) && !besides.includes(id)) ?? null;
}

/** The groups without a name that still have pictures, the most typical picture of each first. */
export function kindsOf(state) {
  return state.groups.map((ids) => ids.filter((id) => !state.labels.has(id) && !state.gone.has(id))).filter((ids) => ids.length);
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
    return { label: none ? null : given, given: true, unknown: none, confidence: null, second: null, guess, kind: null };
  }
  return {
    label: guess, given: false, unknown: answered && Boolean(answers.unknown[id]), second, guess,
    confidence: answered ? answers.confidence[id] : null, margin: answered ? answers.margin[id] : null, kind: state.kindOf.get(id) ?? null,
  };
}

export function sureness(confidence) {
  if (confidence === null) return "";
  if (confidence < 0.005) return "< 1\u00a0%";
  return confidence >= 0.995 && confidence < 1 ? "> 99\u00a0%" : `${Math.round(100 * confidence)}\u00a0%`;
}

/** What to say of a picture: its label, and how sure that is. */
export function wordsOn(state, facts) {
  if (facts.given) return facts.unknown ? ["None of the classes", "as you said"] : [facts.label, "labelled by you"];
  if (facts.kind !== null) return ["Of a kind without a name", facts.label ? `perhaps ${facts.label}` : ""];
  return facts.unknown ? [`Unknown, perhaps ${facts.label}`, ""] : [facts.label ?? "Not named yet", sureness(facts.confidence)];
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

export function remembered(key) {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}
