// A class has a colour and a shape, so that forty classes look different, to everybody.

import { svg } from "./dom.js";

const COLOURS = 8;
const CROSS = [[0.4, -1.2], [0.4, -0.4], [1.2, -0.4], [1.2, 0.4], [0.4, 0.4], [0.4, 1.2]];
const OUTLINES = [
  null,
  [[-0.88, -0.88], [0.88, -0.88], [0.88, 0.88], [-0.88, 0.88]],
  [[0, -1.2], [1.15, 0.85], [-1.15, 0.85]],
  [[0, -1.28], [1.28, 0], [0, 1.28], [-1.28, 0]],
  [...CROSS, ...CROSS.map(([x, y]) => [-x, -y])],
];

export function colourClass(index) {
  return index < 0 ? "none" : `c${index % COLOURS}`;
}

/** SVG path data of the mark of a class, also for the canvas. */
export function outline(index, x, y, r) {
  const corners = OUTLINES[index < 0 ? 0 : index % OUTLINES.length];
  if (!corners) return `M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0z`;
  return `M${corners.map(([a, b]) => `${x + r * a} ${y + r * b}`).join("L")}z`;
}

export function starOutline(x, y, r) {
  const corners = [...Array(10).keys()].map((i) => {
    const [turn, long] = [(i * Math.PI) / 5 - Math.PI / 2, i % 2 ? 0.42 : 1];
    return `${x + r * long * Math.cos(turn)} ${y + r * long * Math.sin(turn)}`;
  });
  return `M${corners.join("L")}z`;
}

export function mark(index) {
  return svg("svg", { class: `mark ${colourClass(index)}`, viewBox: "0 0 16 16", "aria-hidden": "true" },
    svg("path", { d: outline(index, 8, 8, 5.5) }));
}
