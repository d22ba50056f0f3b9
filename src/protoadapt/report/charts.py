"""Charts as SVG inside the page. Positions are percentages of the width, so text keeps its size on a phone.

Colours come from the style sheet by name (c0 … c7), so that they change with dark mode; a class also has a shape.
"""

from collections.abc import Sequence
from math import ceil, cos, floor, log10, pi, sin
from typing import Any, NamedTuple

import numpy as np

from protoadapt.report.markup import COLORS, SHAPES, Html, inner, name_of, tag

HIDE: dict[str, Any] = {"aria_hidden": "true"}  # of what the text beside it says already


class Series(NamedTuple):
    """One curve of a chart."""

    name: str
    style: str  # classes of the style sheet, such as "c1 dashed"
    points: list[tuple[float, float]]


def color(i: int) -> str:
    """The style of class i; grey where i is negative."""
    return f"c{i % COLORS}" if i >= 0 else "none"


def shape(i: int, x: float, y: float, r: float) -> str:
    """Path data of the mark of class i: circle, square, triangle, diamond or cross, of about the same area."""
    quarters = [(0.4, -1.2), (0.4, -0.4), (1.2, -0.4)], [(1.2, 0.4), (0.4, 0.4), (0.4, 1.2)]
    cross = [*quarters[0], *quarters[1], *((-a, -b) for quarter in quarters for a, b in quarter)]
    outlines = (
        f"M{x - r:.1f} {y:.1f}a{r} {r} 0 1 0 {2 * r} 0a{r} {r} 0 1 0 {-2 * r} 0z",
        _polygon(x, y, [(-0.88, -0.88), (0.88, -0.88), (0.88, 0.88), (-0.88, 0.88)], r),
        _polygon(x, y, [(0, -1.2), (1.15, 0.85), (-1.15, 0.85)], r),
        _polygon(x, y, [(0, -1.28), (1.28, 0), (0, 1.28), (-1.28, 0)], r),
        _polygon(x, y, cross, r),
    )
    return outlines[i % SHAPES if i >= 0 else 0]


def _polygon(x: float, y: float, corners: Sequence[tuple[float, float]], r: float) -> str:
    return "M" + "L".join(f"{x + r * a:.1f} {y + r * b:.1f}" for a, b in corners) + "z"


def star(x: float, y: float, r: float = 9) -> str:
    """Path data of a prototype's mark."""
    turns = [(i * pi / 5 - pi / 2, 1 if i % 2 == 0 else 0.42) for i in range(10)]
    return _polygon(x, y, [(cos(a) * k, sin(a) * k) for a, k in turns], r)


def mark(i: int) -> Html:
    """The mark of class i, to stand beside its name."""
    return sign(tag("path", d=shape(i, 8, 8, 5.5)), f"mark {color(i)}", 16)


def sign(content: Html, style: str, side: int | None = None) -> Html:
    """A small drawing beside a word, of `side` units; None: of the pixels it has."""
    return tag("svg", content, class_=style, viewBox=f"0 0 {side} {side}" if side else None, **HIDE)


def bar(*parts: tuple[float, str]) -> Html:
    """Shares of a whole, side by side: (share from 0 to 1, style)."""
    starts = np.cumsum([0.0, *(share for share, _ in parts)])
    rects = [
        tag("rect", x=percent(start), width=percent(share), height="100%", class_=style)
        for start, (share, style) in zip(starts, parts)
        if share > 0
    ]
    return tag("svg", rects, class_="bar", **HIDE)


def percent(share: float) -> str:
    """A share from 0 to 1 as a length in SVG."""
    return f"{100 * share:.2f}%"


def ticks(low: float, high: float) -> list[float]:
    """About five round numbers between low and high."""
    raw = max(high - low, 1e-9) / 5
    size = 10.0 ** floor(log10(raw))
    step = next(k * size for k in (1, 2, 5, 10) if k * size >= 0.999 * raw)
    return [step * k for k in range(ceil(low / step - 1e-9), floor(high / step + 1e-9) + 1)]


def axis(low: float, high: float, marks: Sequence[float], words: str = "") -> Html:
    """Numbers under a chart; the outermost stay inside its width."""
    where = [(at - low) / (high - low or 1) for at in marks]
    texts = [
        tag("text", f"{at:g}", x=percent(x), y=13, class_="first" if x < 0.03 else "last" if x > 0.97 else None)
        for at, x in zip(marks, where)
    ]
    return inner(tag("svg", texts, class_="axis", **HIDE), tag("p", words, class_="axis-name") if words else None)


def interval(mean: float, half: float, low: float, high: float, style: str) -> Html:
    """A dot at the mean and a line over its confidence interval, on a scale with grid lines."""

    def at(value: float) -> str:
        return percent((value - low) / (high - low or 1))

    grid = [tag("line", x1=at(t), x2=at(t), y2="100%", class_="grid") for t in ticks(low, high)]
    whisker = tag("line", x1=at(mean - half), x2=at(mean + half), y1="50%", y2="50%", class_="whisker")
    return tag("svg", grid, whisker, tag("circle", cx=at(mean), cy="50%", r=4), class_=f"strip {style}", **HIDE)


def histogram(values: np.ndarray, style: str, bins: int = 25) -> Html:
    """A histogram of accuracies from 0 to 100 %."""
    counts, _ = np.histogram(values, bins, (0, 100))
    rects = [
        tag("rect", x=percent(i / bins), width=percent(0.86 / bins), y=percent(1 - h), height=percent(h))
        for i, h in enumerate(counts / max(counts.max(), 1))
        if h
    ]
    return tag("svg", rects, class_=f"histogram {style}", **HIDE)


def lines(series: Sequence[Series], low: float, high: float, label: str) -> Html:
    """Curves over epochs, with the numbers of the y axis on its grid lines; `label` is read aloud."""
    xs = [x for one in series for x, _ in one.points]
    first, last = min(xs), max(xs)

    def place(x: float, y: float) -> str:
        return f"{1000 * (x - first) / (last - first or 1):.1f},{1000 * (1 - (y - low) / (high - low or 1)):.1f}"

    def curve(one: Series) -> Html:
        points = " ".join(place(x, y) for x, y in (one.points * 2 if len(one.points) == 1 else one.points))
        return tag("polyline", points=points, class_=one.style, vector_effect="non-scaling-stroke")

    stretched = {"viewBox": "0 0 1000 1000", "preserveAspectRatio": "none", "width": "100%", "height": "100%"}
    sheet = tag("svg", [*map(curve, series)], **stretched)
    whole = [t for t in ticks(first, last) if t == int(t)]
    keys = [(sign(tag("line", x2="100%", y1=5, y2=5, class_=one.style), "key"), one.name) for one in series]
    where = [(t, percent(1 - (t - low) / (high - low or 1))) for t in ticks(low, high)]
    grid = [tag("line", x2="100%", y1=y, y2=y, class_="grid") for _, y in where]
    numbers = [tag("text", f"{t:g}", y=y, dy=-3, class_="number") for t, y in where]
    plot = tag("svg", grid, sheet, numbers, class_="plot", role="img", aria_label=label)
    return tag("figure", plot, axis(first, last, whole, "epoch"), legend(keys), class_="chart")


def legend(keys: Sequence[tuple[Html, object]]) -> Html:
    """Signs with their names, in a line that wraps."""
    return tag("ul", [tag("li", drawing, " ", name_of(words)) for drawing, words in keys], class_="legend")
