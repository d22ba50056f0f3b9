// Files and folders → pictures on the board. A person says whether subfolders are classes.

import { dialog } from "./dialogs.js";
import { count, el } from "./dom.js";

const DATE = /^(19|20)\d\d([-_. ]?\d\d?)*$/;
const [FILES, BYTES, AT_ONCE, REFRESH] = [16, 12 << 20, 2, 1200];

/** The files of a drop as [{file, path}], folders opened at any depth; paths begin inside a folder dropped alone. */
export async function dropped(transfer) {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  if (!entries.length) return [...transfer.files].map((file) => ({ file, path: file.name }));
  const alone = entries.length === 1 && entries[0].isDirectory;
  const found = [];
  async function walk(entry, path) {
    if (entry.isFile) {
      const file = await new Promise((resolve) => entry.file(resolve, () => resolve(null)));
      if (file) found.push({ file, path });
      return;
    }
    const reader = entry.createReader();
    for (;;) {
      const some = await new Promise((resolve) => reader.readEntries(resolve, () => resolve([])));
      if (!some.length) break;
      for (const one of some) await walk(one, path ? `${path}/${one.name}` : one.name);
    }
  }
  for (const entry of entries) await walk(entry, alone ? "" : entry.name);
  return alone ? found.map((one) => ({ ...one, folder: entries[0].name })) : found;
}

/** The files of an input; of a chosen folder without the name of the folder itself. */
export function chosen(input) {
  return [...input.files].map((file) => {
    const [folder, ...path] = (file.webkitRelativePath || `/${file.name}`).split("/");
    return { file, path: path.join("/"), folder };
  });
}

/** Whether folders are classes: their depth, -1 where no folder is one, null where the question is closed unanswered. */
function askForClasses(paths) {
  const parts = paths.map((path) => path.split("/").slice(0, -1));
  const depths = [0, 1].map((depth) => [...new Set(parts.filter((one) => one.length > depth).map((one) => one[depth]))]).filter((names) => names.length);
  if (!depths.length) return -1;
  return new Promise((resolve) => {
    const options = depths.map((names, depth) => [depth, count(names.length, "class", "classes"), names.slice(0, 8).join(", ") + (names.length > 8 ? " …" : "")]);
    const none = [-1, "No classes", "All pictures are without a label"];
    const inOrder = depths[0].every((name) => DATE.test(name)) ? [none, ...options] : [...options, none];
    const buttons = inOrder.map(([depth, words, names], i) => el("button", { type: "button", class: "answer", autofocus: !i, data: { depth }, on: { click: () => {
      resolve(depth);
      element.close();
    } } }, words, el("small", {}, el("bdi", {}, names))));
    const element = dialog("Are the folders classes?", el("h2", {}, "Are the folders in it classes?"), el("p", { class: "note" }, "The pictures of a class are its examples."), buttons);
    element.addEventListener("close", () => {
      resolve(null);
      element.remove();
    });
    document.body.append(element);
    element.showModal();
  });
}

export function createIntake(store, known) {
  const bar = el("progress", { max: "1", value: "0", "aria-label": "Progress" });
  const words = el("span", {});
  const element = el("div", { class: "progress", role: "status", hidden: true }, bar, words);
  const suffixes = new Set(known.suffixes);
  const isPicture = ({ path }) => suffixes.has(path.slice(path.lastIndexOf(".")).toLowerCase());
  const isHidden = ({ path }) => path.split("/").some((part) => part.startsWith("."));
  let busy = Promise.resolve();

  function batches(files) {
    const all = [];
    let [now, bytes] = [[], 0];
    for (const one of files) {
      if (now.length && (now.length >= Math.min(FILES, known.files) || bytes + one.file.size > BYTES)) {
        all.push(now);
        [now, bytes] = [[], 0];
      }
      now.push(one);
      bytes += one.file.size;
    }
    return now.length ? [...all, now] : all;
  }

  async function send(files, labelOf) {
    const drop = Math.random().toString(36).slice(2);
    const parts = batches(files);
    const skipped = [];
    let [sent, read, refreshed] = [0, 0, Date.now()];
    element.hidden = false;
    store.state.taking = true;
    const show = (text) => {
      bar.value = (sent + 3 * read) / (4 * files.length);
      words.textContent = text ?? `${sent.toLocaleString("en")} of ${count(files.length, "file")} sent, ${read.toLocaleString("en")} read`;
    };
    show();
    async function worker() {
      for (let part = parts.shift(); part; part = parts.shift()) {
        const form = new FormData();
        form.append("paths", JSON.stringify(part.map(({ path }) => path)));
        form.append("labels", JSON.stringify(part.map(({ path }) => labelOf(path))));
        form.append("drop", drop);
        form.append("folder", part[0].folder ?? "");
        for (const { file } of part) form.append("files", file, "picture");
        const answer = await store.backend.upload(form, () => {
          sent += part.length;
          show();
        });
        read += part.length;
        skipped.push(...answer.skipped);
        answer.places.forEach((place, i) => place !== null && store.backend.originals.set(place, part[i].file));
        show();
        if (Date.now() - refreshed > REFRESH || read === part.length) {
          refreshed = Date.now();
          await store.load(false);
        }
      }
    }
    try {
      await Promise.all(Array.from({ length: AT_ONCE }, worker));
    } finally {
      store.state.taking = false;
      show("Naming …");
      await store.load().catch(() => {});
      element.hidden = true;
    }
    return skipped;
  }

  /** Adds files: tables after the pictures that they label, bad files named. `label`: of all of them, or none. */
  async function add(files, label = null) {
    const seen = files.filter((one) => !isHidden(one));
    const pictures = seen.filter(isPicture);
    const tables = seen.filter(({ path }) => path.toLowerCase().endsWith(".csv"));
    const others = seen.filter((one) => !isPicture(one) && !tables.includes(one));
    const problems = others.map(({ path }) => [path, "not a picture of a known kind"]);
    const inOrder = new Intl.Collator("en", { numeric: true });
    const depth = label === null ? await askForClasses(pictures.map(({ path }) => path)) : -1;
    if (depth === null) return;
    const labelOf = (path) => label ?? (depth < 0 ? null : path.split("/").slice(0, -1)[depth] ?? null);
    pictures.sort((a, b) => (labelOf(b.path) !== null) - (labelOf(a.path) !== null) || inOrder.compare(a.path, b.path)); // examples first
    const classes = new Set(pictures.map(({ path }) => labelOf(path)).filter(Boolean));
    try {
      if (pictures.length) problems.push(...(await send(pictures, labelOf)));
      for (const { file } of tables) {
        const { labelled, n_missing } = await store.backend.table(file);
        await store.load();
        store.say(`${count(labelled, "label")} from ${file.name}${n_missing ? `; ${count(n_missing, "line")} named no picture here` : ""}.`);
      }
    } catch (error) {
      return store.say(error.message, "error");
    }
    if (problems.length) return store.say(`${count(problems.length, "file was", "files were")} left out.`, "warning", list(problems));
    if (classes.size && !label) store.say(`${count(pictures.length, "picture")}; ${count(classes.size, "folder became a class", "folders became classes")}.`);
    if (!seen.length) store.say("There is no picture in it.", "warning");
  }

  function list(problems) {
    const lines = problems.slice(0, 50).map(([file, reason]) => el("li", {}, el("bdi", {}, file), `: ${reason}`));
    if (problems.length > 50) lines.push(el("li", {}, `and ${problems.length - 50} more`));
    return el("details", { open: problems.length < 6 }, el("summary", {}, "Which?"), el("ul", {}, lines));
  }

  return {
    element,
    /** One drop after the other. */
    add(files, label) {
      busy = busy.then(async () => add(await files, label));
      return busy;
    },
  };
}
