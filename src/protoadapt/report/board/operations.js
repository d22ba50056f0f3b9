// What a person can do to a board, as patches: {labels, classes, gone}. The server applies the same patches.

export const UNKNOWN = "unknown";
const LONGEST = 80;

/** A class name as typed, in the spelling of a class that is there already; or {error}. */
export function className(text, classes) {
  const name = text.normalize("NFC").split(/\s+/u).filter(Boolean).join(" ").replace(/\p{C}/gu, "");
  if (!name) return { error: "Type the name of a class." };
  if (name.toLowerCase() === UNKNOWN) return { error: `“${name}” is reserved for pictures of no class.` };
  if ([...name].length > LONGEST) return { error: `A name has at most ${LONGEST} characters.` };
  return { name: classes.find((known) => known.toLowerCase() === name.toLowerCase()) ?? name };
}

/** Pictures get a label: a class, UNKNOWN, or null, which takes their label back. A new class is made on the way. */
export function labelPatch(state, ids, label) {
  const patch = { labels: Object.fromEntries(ids.map((id) => [id, label])) };
  if (label !== null && label !== UNKNOWN && !state.classes.includes(label)) patch.classes = [...state.classes, label];
  return patch;
}

/** A class gets another name; where a class has that name already, the two become one. */
export function renamePatch(state, from, to) {
  const classes = state.classes.includes(to)
    ? state.classes.filter((name) => name !== from)
    : state.classes.map((name) => (name === from ? to : name));
  return { labels: Object.fromEntries(idsOf(state, from).map((id) => [id, to])), classes };
}

/** A class is deleted; its examples are unlabelled again. */
export function deletePatch(state, name) {
  const classes = state.classes.filter((other) => other !== name);
  return { labels: Object.fromEntries(idsOf(state, name).map((id) => [id, null])), classes };
}

export function removePatch(ids) {
  return { gone: Object.fromEntries(ids.map((id) => [id, true])) };
}

/** Applies a patch to {labels, classes, gone} and returns the patch that undoes it. */
export function applyPatch(state, { labels = {}, classes = null, gone = {} }) {
  const back = { labels: {}, gone: {} };
  for (const [key, label] of Object.entries(labels)) {
    back.labels[key] = state.labels.get(Number(key)) ?? null;
    if (label === null) state.labels.delete(Number(key));
    else state.labels.set(Number(key), label);
  }
  for (const [key, off] of Object.entries(gone)) {
    back.gone[key] = state.gone.has(Number(key));
    if (off) state.gone.add(Number(key));
    else state.gone.delete(Number(key));
  }
  if (classes) {
    back.classes = state.classes;
    state.classes = classes;
  }
  return back;
}

function idsOf(state, name) {
  return [...state.labels].filter(([, label]) => label === name).map(([id]) => id);
}
