"""Figure 3 of Ye et al. (2020) as SVG: rows in the plane of one joint t-SNE, and the prototypes' paths through them."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from protoadapt.report.charts import color, legend, mark, shape, sign, star
from protoadapt.report.markup import Html, Section, section, tag

PATHS = "protoadapt-paths/1"
WIDTH, HEIGHT, EDGE = 640, 440, 26
_NOTE = (
    "Each mark is a picture, in a plane where similar pictures lie close together (t-SNE). Stars are class prototypes: "
    "they start at the labelled examples and end where the unlabelled pictures have moved them."
)


class Paths(NamedTuple):
    """Rows and the positions of the prototypes in the plane."""

    rows: np.ndarray  # (N, 2)
    labels: np.ndarray  # (N), −1: none
    support: np.ndarray  # (N): whether the row is a labelled example
    steps: list[np.ndarray]  # per class, (T, 2)


def paths_of(document: Mapping[str, Any]) -> Paths:
    """Plane coordinates from a document of `core.projection`."""
    rows, *steps = (np.array(points, float).reshape(-1, 2) for points in (document["rows"], *document["steps"]))
    return Paths(rows, np.array(document["row_label"], int), np.array(document["support"], bool), steps)


def motion_section(charts: Sequence[Html]) -> Section | None:
    """The section of a page that holds such charts."""
    return section("How the prototypes moved", charts, id_="motion", note=_NOTE, words="Prototypes")


def motion(paths: Paths, names: Sequence[str]) -> Html:
    """Rows as marks of their class (grey where it has no name), prototypes as dashed lines between two stars."""
    rows, *ways = _fitted([paths.rows, *paths.steps])
    classes = np.where(paths.labels < len(names), paths.labels, -1)
    r = 4.5 if len(rows) < 300 else 3.5
    layers = []
    for example in (False, True):
        for c in range(-1, len(names)):
            points = rows[(classes == c) & (paths.support == example)]
            if len(points):
                d = "".join(shape(c, x, y, r + example) for x, y in points)
                layers.append(tag("path", d=d, class_=f"{color(c)} {'example' if example else 'row'}"))
    ends = list(enumerate(ways[: len(names)]))
    layers += [
        tag("polyline", points=" ".join(f"{x:.1f},{y:.1f}" for x, y in way), class_=f"path {color(c)}")
        for c, way in ends
    ]
    layers += [tag("path", d=star(*way[0]), class_=f"start {color(c)}") for c, way in ends]
    layers += [tag("path", d=star(*way[-1]), class_=f"end {color(c)}") for c, way in ends]
    layers += _words([(names[c], way[-1]) for c, way in ends])
    label = f"{len(rows)} pictures and the paths of {len(ends)} class prototypes in the plane."
    plot = tag("svg", layers, class_="motion", viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img", aria_label=label)
    kinds = [("row", shape(0, 8, 8, 4.5), "unlabelled"), ("example", shape(0, 8, 8, 5.5), "labelled example")]
    kinds += [("start", star(8, 9, 8), "prototype, start"), ("end", star(8, 9, 8), "prototype, end")]
    signs = [(sign(tag("path", d=d, class_=f"none {kind}"), "mark motion", 16), words) for kind, d, words in kinds]
    keys = [(mark(c), name) for c, name in enumerate(names)]
    return tag("figure", plot, legend(signs), legend(keys), class_="chart wide")


def _fitted(parts: list[np.ndarray]) -> list[np.ndarray]:
    """All points moved and scaled, alike in both directions, to fill the chart."""
    points = np.concatenate(parts)
    low, high = (points.min(0), points.max(0)) if len(points) else (np.zeros(2), np.ones(2))
    room = np.array([WIDTH - 2 * EDGE, HEIGHT - 2 * EDGE])
    scale = float((room / np.maximum(high - low, 1e-9)).min())
    middle = np.array([WIDTH, HEIGHT]) / 2
    return [middle + scale * (part - (low + high) / 2) for part in parts]


def _words(ends: Sequence[tuple[str, np.ndarray]]) -> list[Html]:
    """Names beside the stars, each where it covers no other; a name without such a place is in the legend only."""
    taken = [(x - 10, y - 10, x + 10, y + 10) for _, (x, y) in ends]
    words = []
    for name, (x, y) in ends:
        short = name if len(name) <= 18 else name[:17] + "…"
        long = 7.4 * len(short)
        for left, base in ((x + 13, y + 5), (x - 13 - long, y + 5), (x - long / 2, y - 14), (x - long / 2, y + 24)):
            box = (left, base - 12, left + long, base + 4)
            inside = box[0] >= 0 and box[2] <= WIDTH and box[1] >= 0 and box[3] <= HEIGHT
            free = all(box[2] < t[0] or t[2] < box[0] or box[3] < t[1] or t[3] < box[1] for t in taken)
            if inside and free:
                taken.append(box)
                words.append(tag("text", short, x=f"{left:.1f}", y=f"{base:.1f}"))
                break
    return words
