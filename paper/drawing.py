"""Drawing with matplotlib: grouped bars and the path of prototypes, as PNG files."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from protoadapt.core.files import written_whole
from protoadapt.report.motion import paths_of

COLORS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#ee8866", "#999933", "#882255", "#555555")


def draw_bars(
    groups: Sequence[str], series: Mapping[str, Sequence[float]], file: Path, label: str, axis: str, title: str = ""
) -> None:
    """One group of bars for each of `groups`, in it one bar per series; the axis starts at zero."""
    figure = _sheet(1.15 * len(groups) + 1.5, 4.4)
    axes = figure.subplots()
    width = 0.86 / len(series)
    for i, (name, values) in enumerate(series.items()):
        places = [g + (i - (len(series) - 1) / 2) * width for g in range(len(groups))]
        axes.bar(places, values, width, label=name, color=COLORS[i % len(COLORS)])
    axes.set(xticks=range(len(groups)), xticklabels=groups, xlabel=label, ylabel=axis, title=title)
    axes.set_ylim(bottom=0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#dddddd", linewidth=0.8)
    axes.set_axisbelow(True)
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    _save(figure, file)


def draw_paths(document: dict[str, Any], file: Path) -> None:
    """Circles: queries, outlined where labelled. Stars: prototypes, black outline at the start, red at the end."""
    paths = paths_of(document)
    figure = _sheet(7, 6)
    axes = figure.subplots()
    style: dict[str, Any] = {"s": 42, "linewidths": 1.2}
    # With one shot the labelled picture is where its prototype starts: it is drawn over the star.
    for labelled, alpha, layer, outline in ((False, 0.75, 1, "none"), (True, 1, 4, "black")):
        chosen = paths.support == labelled
        colors = [COLORS[label % len(COLORS)] for label in paths.labels[chosen]]
        axes.scatter(*paths.rows[chosen].T, c=colors, edgecolors=outline, alpha=alpha, zorder=layer, **style)
    for c, way in enumerate(paths.steps):
        axes.plot(*way.T, "--", color="black", linewidth=1.2, zorder=4)
        star: dict[str, Any] = {"marker": "*", "s": 210, "color": COLORS[c % len(COLORS)], "linewidths": 1.4}
        for point, outline in ((way[0], "black"), (way[-1], "#cc0000")):
            axes.scatter(*point, edgecolors=outline, zorder=3, **star)
    marks = [("o", "none", "unlabelled"), ("o", "black", "labelled"), ("*", "black", "start")]
    signs = [
        axes.scatter([], [], marker=m, s=42 if m == "o" else 200, color="#bbbbbb", edgecolors=outline, label=word)
        for m, outline, word in [*marks, ("*", "#cc0000", "adapted")]
    ]
    axes.legend(handles=signs, loc="upper center", ncols=4, frameon=False, bbox_to_anchor=(0.5, 0))
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    _save(figure, file)


def _sheet(width: float, height: float) -> Figure:
    """An empty figure of so many inches. No pyplot: nothing global, no window, any thread."""
    return Figure(figsize=(width, height), layout="constrained")


def _save(figure: Figure, file: Path) -> None:
    with written_whole(file) as partial:
        figure.savefig(partial, dpi=140, format="png")
