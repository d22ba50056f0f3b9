// The files that this page was given, sorted into a folder per class, as one zip file (stored, not compressed).

import { factsOf } from "./store.js";

const LIMIT = 2 ** 32 - 2 ** 24; // of a zip file without extensions
const TABLE = Uint32Array.from({ length: 256 }, (_, n) => {
  for (let bit = 0; bit < 8; bit++) n = n & 1 ? 0xedb88320 ^ (n >>> 1) : n >>> 1;
  return n;
});

async function crc32(file) {
  let sum = -1;
  for (const reader = file.stream().getReader(); ;) {
    const { done, value } = await reader.read();
    if (done) return ~sum >>> 0;
    for (const byte of value) sum = TABLE[(sum ^ byte) & 255] ^ (sum >>> 8);
  }
}

/** A class name as one folder, as `label --sort` writes it. */
function folderName(name) {
  const odd = /[\x00-\x1f\x7f/\\:*?"<>|%]|^\.|[. ]$/g;
  return name.replace(odd, (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0")}`) || "%";
}

function placeOf(state, id) {
  const { label, unknown, kind } = factsOf(state, id);
  const folder = kind !== null ? `unnamed-${kind + 1}` : unknown || label === null ? "unknown" : folderName(label);
  return `${folder}/${state.pictures[id].name}`;
}

/** The header of one file: little-endian numbers of 2 or 4 bytes, given as [value, bytes]. */
function bytesOf(...numbers) {
  return Uint8Array.from(numbers.flatMap(([value, bytes]) => Array.from({ length: bytes }, (_, i) => (value >>> (8 * i)) & 255)));
}

/** The zip file, as a blob that refers to the files on the disk, and how many pictures this page has no file of. */
export async function sortedZip(state, originals, tick) {
  const present = state.pictures.map((_, id) => id).filter((id) => !state.gone.has(id));
  const files = present.filter((id) => originals.has(id));
  const [parts, directory] = [[], []];
  let offset = 0;
  for (const [done, id] of files.entries()) {
    const file = originals.get(id);
    const name = new TextEncoder().encode(placeOf(state, id));
    if (offset + file.size > LIMIT) throw new Error("The pictures have more than 4 GB together: sort them with protoadapt label --sort.");
    const day = new Date(Math.max(file.lastModified, Date.UTC(1980, 0, 2)));
    const time = (day.getHours() << 11) | (day.getMinutes() << 5) | (day.getSeconds() >> 1);
    const date = ((day.getFullYear() - 1980) << 9) | ((day.getMonth() + 1) << 5) | day.getDate();
    const shared = [[20, 2], [0x800, 2], [0, 2], [time, 2], [date, 2], [await crc32(file), 4], [file.size, 4], [file.size, 4], [name.length, 2], [0, 2]];
    directory.push(bytesOf([0x02014b50, 4], [20, 2], ...shared, [0, 2], [0, 2], [0, 2], [0, 4], [offset, 4]), name);
    parts.push(bytesOf([0x04034b50, 4], ...shared), name, file);
    offset += 30 + name.length + file.size;
    tick(done + 1, files.length);
  }
  const size = directory.reduce((sum, part) => sum + part.length, 0);
  const end = bytesOf([0x06054b50, 4], [0, 2], [0, 2], [files.length, 2], [files.length, 2], [size, 4], [offset, 4], [0, 2]);
  return { blob: new Blob([...parts, ...directory, end], { type: "application/zip" }), n: files.length, missing: present.length - files.length };
}
