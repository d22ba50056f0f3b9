// The keyboard: every correction without the mouse.

import { KEYS } from "./classes.js";

const MOVES = new Set(["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End", "PageUp", "PageDown"]);

/** Listens to the whole page; `act` has a function per action, `modal()` the dialog that is open, `full` its own. */
export function listenToKeys(store, act, full) {
  document.addEventListener("keydown", (event) => {
    const { key, ctrlKey, metaKey, shiftKey, altKey, target } = event;
    const open = document.querySelector("dialog[open]");
    if (open && open !== full) return;
    const typing = target.closest?.("input:not([type=range]), select, textarea");
    const control = ctrlKey || metaKey;
    if (control && !altKey && key.toLowerCase() === "z" && !typing) return done(event, shiftKey ? act.redo : act.undo);
    if (control && key.toLowerCase() === "y" && !typing) return done(event, act.redo);
    if (control && key.toLowerCase() === "a" && !typing) return done(event, act.all);
    if (key === "Escape" && !open) {
      return done(event, typing ? act.focusGrid : act.none);
    }
    if (typing || control || altKey) return;
    const inGrid = !target.closest?.("button, a, summary, input") || target.id === "grid";
    if (MOVES.has(key) && (inGrid || open) && !act.zoomed()) return done(event, () => act.move(key, shiftKey));
    if ((key === "Enter" || key === " ") && !inGrid && !open) return;
    if (KEYS.includes(key) && !shiftKey) return done(event, () => act.byNumber(KEYS.indexOf(key)));
    const run = {
      Enter: act.confirm, " ": act.open, u: act.unknown, s: act.next, c: act.type, r: act.second, f: act.similar, "+": act.larger, "-": act.smaller, g: act.grid, m: act.map,
      Backspace: act.clear, Delete: act.remove, "/": act.search, "?": act.help,
    }[key.length === 1 ? key.toLowerCase() : key];
    if (run) done(event, run);
  });
}

function done(event, run) {
  event.preventDefault();
  run();
}
