"""The paper's Figure 3 as SVG: pictures in the plane of one joint t-SNE, and the prototypes' paths through them."""

from collections.abc import Sequence

import numpy as np

from protoadapt.report.charts import HIDE, color, legend, mark, shape, star
from protoadapt.report.markup import Html, tag

WIDTH, HEIGHT, EDGE = 640, 440, 26
Point = Sequence[float]


def motion(
    rows: Sequence[Point],
    labels: Sequence[int],
    support: Sequence[bool],
    steps: Sequence[Sequence[Point]],
    names: Sequence[str],
) -> Html:
    """rows (N, 2) with their class (−1: none) and whether they are labelled; steps[c]: prototype c's positions."""
    points, *ways = _fitted([np.array(part, float).reshape(-1, 2) for part in (rows, *steps)])
    kinds = np.array([c if 0 <= c < len(names) else -1 for c in labels], int)
    known = np.array(support, bool)
    if not len(points) == len(kinds) == len(known):
        raise ValueError("rows, their classes and whether they are labelled differ in number")
    r = 4.5 if len(points) < 300 else 3.5 if len(points) < 1000 else 2.6
    layers = []
    for labelled in (False, True):
        for c in range(-1, len(names)):
            chosen = points[(kinds == c) & (known == labelled)]
            if len(chosen):
                d = "".join(shape(c, x, y, r + labelled) for x, y in chosen)
                layers.append(tag("path", d=d, class_=f"{color(c)} {'example' if labelled else 'row'}"))
    paths = [(c, way) for c, way in enumerate(ways) if len(way) and c < len(names)]
    layers += [
        tag("polyline", points=" ".join(f"{x:.1f},{y:.1f}" for x, y in way), class_=f"path {color(c)}")
        for c, way in paths
    ]
    layers += [tag("path", d=star(*way[0]), class_=f"start {color(c)}") for c, way in paths]
    layers += [tag("path", d=star(*way[-1]), class_=f"end {color(c)}") for c, way in paths]
    layers += _words([(names[c], way[-1]) for c, way in paths])
    told = f"{len(points)} pictures and the paths of {len(paths)} class prototypes, in the plane."
    plot = tag("svg", layers, class_="motion", viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img", aria_label=told)
    classes = legend([(mark(c), name) for c, name in enumerate(names)])
    return tag("figure", plot, legend(_signs()), classes, class_="chart wide")


def _fitted(parts: list[np.ndarray]) -> list[np.ndarray]:
    """All points moved and scaled, alike in both directions, to fill the sheet."""
    everything = np.concatenate(parts)
    if not (np.abs(everything) < 1e12).all():
        raise ValueError("a position is not finite, or beyond all measure")
    low, high = (everything.min(0), everything.max(0)) if len(everything) else (np.zeros(2), np.ones(2))
    room = np.array([WIDTH - 2 * EDGE, HEIGHT - 2 * EDGE])
    scale = float((room / np.maximum(high - low, 1e-9)).min())
    middle = np.array([WIDTH, HEIGHT]) / 2
    return [middle + scale * (part - (low + high) / 2) for part in parts]


def _words(ends: Sequence[tuple[str, np.ndarray]]) -> list[Html]:
    """Names beside the stars, each where it covers no other; one without such a place is in the legend only."""
    taken = [(x - 10, y - 10, x + 10, y + 10) for _, (x, y) in ends]
    out = []
    for name, (x, y) in ends:
        short = name if len(name) <= 18 else name[:17] + "…"
        long = 7.4 * len(short)
        for left, base in ((x + 13, y + 5), (x - 13 - long, y + 5), (x - long / 2, y - 14), (x - long / 2, y + 24)):
            box = (left, base - 12, left + long, base + 4)
            inside = box[0] >= 0 and box[2] <= WIDTH and box[1] >= 0 and box[3] <= HEIGHT
            free = all(box[2] < t[0] or t[2] < box[0] or box[3] < t[1] or t[3] < box[1] for t in taken)
            if inside and free:
                taken.append(box)
                out.append(tag("text", short, x=f"{left:.1f}", y=f"{base:.1f}"))
                break
    return out


def _signs() -> list[tuple[Html, str]]:
    kinds = [("row", shape(0, 8, 8, 4.5), "to be named"), ("example", shape(0, 8, 8, 5.5), "example")]
    kinds += [("start", star(8, 9, 8), "prototype, start"), ("end", star(8, 9, 8), "prototype, end")]
    return [
        (tag("svg", tag("path", d=d, class_=f"none {kind}"), class_="mark motion", viewBox="0 0 16 16", **HIDE), words)
        for kind, d, words in kinds
    ]
