// The board on a server: pictures are taken in, changes are sent, files are saved.

import { createBoard } from "./board.js";
import { count, el, icon } from "./dom.js";
import { chosen, createIntake, dropped } from "./intake.js";
import { about, newBoard, serverBackend } from "./server_backend.js";
import { download, labelsCsv } from "./label_csv.js";
import { sortedZip } from "./sorted_zip.js";
import { createStore } from "./store.js";

const ZIP = "zip, to unpack beside the pictures";
const ALIVE = 5 * 60 * 1000;

async function open(known) {
  const named = location.hash.match(/^#board=([A-Za-z0-9_-]{16})$/)?.[1];
  if (named) {
    const backend = serverBackend(named);
    const snapshot = await backend.load().catch(() => null);
    if (snapshot) return [backend, snapshot];
  }
  const backend = serverBackend(await newBoard());
  history.replaceState(null, "", `#board=${backend.id}`);
  const lost = named ? "That board is no longer here. This is a new one." : "";
  return [backend, await backend.load(), lost];
}

function picker(words, name, attributes, use) {
  const input = el("input", { type: "file", multiple: true, hidden: true, ...attributes });
  input.addEventListener("change", () => {
    use(chosen(input));
    input.value = "";
  });
  return [input, el("button", { type: "button", class: "big", on: { click: () => input.click() } }, icon(name), el("span", {}, words))];
}

function startPanel(known, add) {
  const accept = [...known.suffixes, ".csv"].join(",");
  const kept = known.kept.map(({ id, title, pictures, used, reason }) => el("li", {}, reason ? `The board ${id} cannot be opened (${reason}): move its folder away.` : el("a", { href: `#board=${id}` },
    title && el("bdi", {}, title), `${title ? ": " : ""}${count(pictures, "picture")}, last used ${new Date(used * 1000).toLocaleString([], { dateStyle: "medium", timeStyle: "short" })}`)));
  return el("section", { class: "start", "aria-label": "Add pictures" },
    el("h2", {}, "Drop a folder of pictures here"),
    el("p", {}, "Pictures without a label fall into groups that look alike, for you to name. Folders of examples are classes: everything else is named from them."),
    el("div", { class: "pickers" }, picker("Choose a folder", "folder", { webkitdirectory: true }, add), picker("Choose files", "file", { accept }, add)),
    kept.length > 0 && el("div", { class: "kept" }, el("h3", {}, "Go on with a board"), el("ul", {}, kept)),
    el("p", { class: "small" }, `${known.formats.join(", ")} files of up to ${known.max_mb} MB, up to ${known.max_pictures.toLocaleString("en")} pictures; a csv with the columns file and label gives labels. Pictures go to the computer that serves this page and nowhere else${known.keeps ? ", and are kept there." : ", and are forgotten an hour after the page is closed."} Model ${known.model}, trained on ${known.trained_on}.`));
}

function menu(words, name, ...items) {
  const list = el("div", { class: "menu" }, items.flat());
  const element = el("details", { class: "drop" }, el("summary", { class: "tool wide", "aria-label": words }, icon(name), el("span", {}, words)), list);
  addEventListener("click", (event) => element.contains(event.target) || element.removeAttribute("open"));
  list.addEventListener("click", (event) => event.target.closest("button") && element.removeAttribute("open"));
  element.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    element.removeAttribute("open");
    element.querySelector("summary").focus();
  });
  return element;
}

function saveMenu(store) {
  const files = {
    "labels.csv": ["Table of labels", "csv, opens in a spreadsheet, and can be dropped here again"], "report.html": ["Report", "one page with all pictures, to look at and pass on"],
    "classifier.safetensors": ["Classifier", "names new pictures, with protoadapt predict"], "imagefolder.zip": ["Hugging Face imagefolder", ZIP],
    "fiftyone.zip": ["FiftyOne dataset", ZIP], "label-studio.zip": ["Label Studio tasks", "zip with tasks.json and config.xml"],
  };
  async function sorted() {
    try {
      const { blob, n, missing } = await sortedZip(store.state, store.backend.originals, (done, all) => store.say(`${done.toLocaleString("en")} of ${count(all, "file")} read …`));
      if (!n) return store.say("This page holds small copies only since it was loaded again: drop the folder once more, then save.", "warning");
      download(blob, "sorted.zip");
      store.say(`${count(n, "picture")} saved, sorted into folders.${missing ? ` ${count(missing, "picture")} left out, of which this page holds small copies only: drop their folder once more.` : ""}`, missing ? "warning" : "note");
    } catch (error) {
      store.say(error.message, "error");
    }
  }
  async function save(name) {
    if (!(await store.saved())) return store.say(`Not saved: ${count(store.state.unsaved, "step")} did not reach the server yet.`, "error");
    const wait = name === "report.html" ? "The report is being made …" : null;
    if (wait) store.say(wait);
    const answer = await fetch(`${store.backend.base}/${name}`).catch(() => null);
    if (!answer?.ok) {
      const why = await answer?.json().catch(() => null);
      if (answer?.status === 404) return store.lose(why?.detail ?? "");
      return store.say(why?.error ?? "The server does not answer.", "error");
    }
    download(await answer.blob(), name);
    if (wait) store.say("The report is saved.");
  }
  const item = (name, words, note, run) => el("button", { type: "button", data: { save: name }, on: { click: run } }, el("span", {}, words, el("small", {}, note)));
  return menu("Save", "save", Object.entries(files).map(([name, [words, note]]) => item(name, words, note, () => save(name))),
    item("sorted.zip", "Pictures sorted into folders", "zip with your own files, one folder per class", sorted));
}

/** What is not on the server, for the header: steps that wait, or all labels of a board that the server has lost. */
function unsavedMark(store) {
  const { state } = store;
  const words = el("span", {});
  const button = (text, run) => el("button", { type: "button", class: "again", on: { click: run } }, text);
  const again = button("Try again", () => store.send());
  const rescue = button("Download these labels", () => {
    const rows = state.pictures.flatMap(({ name }, id) => (state.labels.has(id) && !state.gone.has(id) ? [[name, state.labels.get(id), "(page)"]] : []));
    download(new Blob([labelsCsv(rows)], { type: "text/csv" }), "labels.csv");
    rescued = state.version;
  });
  const element = el("p", { class: "unsaved", role: "status" }, words, again, rescue);
  let rescued = null;
  addEventListener("beforeunload", (event) => {
    if (state.lost ? rescued !== state.version : state.unsaved || state.busy) event.preventDefault();
  });
  store.onChange(() => {
    element.hidden = !state.unsaved && !state.lost;
    again.hidden = !state.unsaved;
    rescue.hidden = !state.lost;
    const text = state.unsaved ? `${count(state.unsaved, "step")} not saved` : "No longer on the server";
    if (words.textContent !== text) words.textContent = text;
  });
  return element;
}

async function main() {
  const known = await about();
  const [backend, snapshot, lost] = await open(known);
  const store = createStore(backend);
  const intake = createIntake(store, known);
  /** Where nobody named anything yet, the groups are what to begin with. */
  const begin = () => !store.state.answers && store.state.groups.length && store.look({ scope: "kinds" });
  const add = (files, label) => intake.add(files, label).then(begin);
  const start = startPanel(known, add);
  const accept = [...known.suffixes, ".csv"].join(",");
  const other = el("button", { type: "button", on: { click: () => window.open("/", "_blank", "noopener") } }, "New board in a new tab");
  const adding = menu("Add", "add", picker("A folder", "folder", { webkitdirectory: true }, add), picker("Files, or a csv of labels", "file", { accept }, add), other);
  const board = createBoard(store, { title: "Name your pictures", buttons: [unsavedMark(store), adding, saveMenu(store)], start, files: (event, name) => add(dropped(event.dataTransfer), name) });
  board.element.append(intake.element);
  document.body.replaceChildren(board.element);
  document.addEventListener("dragover", (event) => {
    event.preventDefault();
    document.body.classList.toggle("dropping", event.dataTransfer.types.includes("Files"));
  });
  for (const name of ["dragleave", "drop"]) document.addEventListener(name, (event) => {
    if (name === "drop" || !event.relatedTarget) document.body.classList.remove("dropping");
  });
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    if (event.dataTransfer.types.includes("Files")) add(dropped(event.dataTransfer));
  });
  addEventListener("hashchange", () => location.reload());
  setInterval(() => fetch(`${backend.base}?since=999999999&names=false`).catch(() => {}), ALIVE);
  store.take(snapshot);
  begin();
  if (lost) store.say(lost, "warning");
}

main().catch((error) => document.body.replaceChildren(el("p", { class: "fatal", role: "alert" }, error.message)));
