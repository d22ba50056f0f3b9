// Labels as a csv that `label --support` takes.

import { el } from "./dom.js";

const FORMULA = /^'*[=+\-@\t\r]/;

/** The text of [[file, label, guess]]: cells that a spreadsheet would take for a formula are disarmed. */
export function labelsCsv(rows) {
  const quoted = (cell) => (/[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell);
  const lines = rows.map(([file, label, guess]) => [/^[=+\-@\t\r]/.test(file) ? `./${file}` : file, FORMULA.test(label) ? `'${label}` : label, guess].map(quoted).join(","));
  return ["file,label,guess", ...lines, ""].join("\r\n");
}

/** Hands a file to the browser's downloads. */
export function download(blob, name) {
  const address = URL.createObjectURL(blob);
  el("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60000);
}
