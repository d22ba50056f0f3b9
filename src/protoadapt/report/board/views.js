// Which pictures are shown, in which order, in which groups.

import { count } from "./dom.js";
import { factsOf, kindsOf } from "./store.js";

export const UNSURE = 0.8;
const BY_NUMBER = new Intl.Collator("en", { numeric: true });

/** The ways to look at a board, beside its classes: name → [title, whether a picture is in it]. */
export const SCOPES = {
  all: ["All pictures", () => true],
  kinds: ["Kinds without a name", (facts) => facts.kind !== null],
  next: ["Label these next", (facts) => !facts.given],
  unsure: ["Uncertain", (facts) => !facts.given && !facts.unknown && facts.confidence !== null && facts.confidence < UNSURE],
  unknown: ["Unknown", (facts) => facts.unknown],
  yours: ["Labelled by you", (facts) => facts.given],
  moved: ["Just changed", (facts, id, view) => view.moved.has(id)],
};

/** Counts by scope and class in one pass: {scopes: {name: n}, classes: Map(name → {found, given, examples: [id]})}. */
export function tally(state, view) {
  const scopes = Object.fromEntries(Object.keys(SCOPES).map((name) => [name, 0]));
  const classes = new Map(state.classes.map((name) => [name, { found: 0, given: 0, examples: [] }]));
  for (let id = 0; id < state.pictures.length; id++) {
    if (state.gone.has(id)) continue;
    const facts = factsOf(state, id);
    for (const name in SCOPES) scopes[name] += SCOPES[name][1](facts, id, view) && (name !== "next" || state.suggested.has(id));
    const of = facts.unknown ? null : classes.get(facts.label);
    if (!of) continue;
    of[facts.given ? "given" : "found"]++;
    if (facts.given && of.examples.length < 1) of.examples.push(id);
  }
  return { scopes, classes };
}

/** [{title, index, kind, ids}]: index is that of a class, kind "class", "unknown", "none" or "queue". */
export function groupsOf(state, view) {
  const facts = new Map();
  const query = view.query.trim().toLowerCase();
  const inScope = view.scope === "found" ? () => true : view.scope === "kind" ? (known) => !known.given : (SCOPES[view.scope] ?? [null, (known) => `class:${known.label}` === view.scope && !known.unknown])[1];
  for (let id = 0; id < state.pictures.length; id++) {
    if (state.gone.has(id)) continue;
    const known = factsOf(state, id);
    if (!inScope(known, id, view) || (view.below < 1 && (known.given || (known.confidence ?? 0) >= view.below))) continue;
    const text = `${state.pictures[id].name}\n${known.unknown ? "unknown" : known.label ?? ""}`.toLowerCase();
    if (!query || text.includes(query)) facts.set(id, known);
  }
  if (view.scope === "next") {
    const queue = state.next.filter((id) => facts.has(id));
    const [first, rest] = [true, false].map((on) => queue.filter((id) => state.suggested.has(id) === on));
    const after = { title: first.length ? "After these, the least certain first" : "The least certain first", kind: "none", index: -1, ids: rest };
    return [{ title: SCOPES.next[0], kind: "queue", index: -1, ids: first }, after].filter((group) => group.ids.length);
  }
  if (view.scope === "found") return view.found.map((group, index) => ({ ...group, kind: "found", index, ids: group.ids.filter((id) => facts.has(id)) })).filter((group) => group.ids.length);
  if (view.scope === "kind") return [{ title: "The most typical first", kind: "none", index: -1, ids: view.kind.filter((id) => facts.has(id)) }];
  const taken = (id) => state.pictures[id].taken ?? "";
  const byName = (a, b) => BY_NUMBER.compare(state.pictures[a].name, state.pictures[b].name);
  if (view.order === "name" || view.order === "date") {
    const byDate = (a, b) => Number(!taken(a)) - Number(!taken(b)) || BY_NUMBER.compare(taken(a), taken(b)) || byName(a, b);
    return [{ title: SCOPES[view.scope]?.[0] ?? view.scope.slice(6), kind: "none", index: -1, ids: [...facts.keys()].sort(view.order === "date" ? byDate : byName) }];
  }
  const sign = view.order === "sure" ? -1 : 1;
  const sort = (ids) => ids.sort((a, b) => {
    const [one, other] = [facts.get(a), facts.get(b)];
    return one.given - other.given || sign * ((one.confidence ?? 0) - (other.confidence ?? 0)) || byName(a, b);
  });
  const groups = state.classes.map((title, index) => ({ title, index, kind: "class", ids: [] }));
  const of = new Map(groups.map((group) => [group.title, group]));
  const unknown = { title: "Unknown, perhaps none of these", index: -1, kind: "unknown", ids: [] };
  const none = { title: "Not named yet", index: -1, kind: "none", ids: [] };
  const kinds = state.groups.map((_, index) => ({ title: "A kind without a name", index, kind: "kind", ids: [] }));
  for (const [id, known] of facts) (kinds[known.kind] ?? (known.unknown ? unknown : of.get(known.label) ?? none)).ids.push(id);
  return [none, ...kinds, unknown, ...groups].filter((group) => group.ids.length).map((group) => ({ ...group, ids: sort(group.ids) }));
}

/** What is known of the whole board, in a sentence or a few. */
export function summaryOf(state, view) {
  const present = state.pictures.length - state.gone.size;
  const labelled = [...state.labels.keys()].filter((id) => !state.gone.has(id)).length;
  if (state.busy && !state.answers) return "Naming …";
  if (state.taking) return `${count(present, "picture")} so far. All of them are named when the last one is here.`;
  const unnamed = kindsOf(state).length;
  if (!state.answers && unnamed) {
    return `${count(present - labelled, "picture")} without a label, in ${count(unnamed, "group")} that look alike. Name ${state.classes.length ? "one more" : "two or more"} of them: all other pictures are named then.`;
  }
  if (!state.answers) {
    return `${count(present, "picture")}. Name one picture of ${state.classes.length === 1 ? "one more class" : "each of two classes"}: choose it and type its class. All others are named then.`;
  }
  if (present === labelled) return `All ${count(present, "picture")} have a label that you gave: save them.`;
  const moved = view.moved.size ? ` ${count(view.moved.size, "picture")} changed class with your last step.` : "";
  const unmarked = state.calibrated || unnamed ? "" : " Too few pictures have no label to tell whether some are of none of the classes.";
  const more = unnamed ? ` ${count(unnamed, "group")} without a name.` : "";
  return [`${count(present - labelled, "picture")} named from ${count(labelled, "label")} of ${count(state.classes.length, "class", "classes")}.${more}${moved}${unmarked}`, ...state.findings].join(" ");
}
