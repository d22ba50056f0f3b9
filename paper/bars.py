"""Bars in groups, as in the paper's semi-supervised chart."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from protoadapt.report.canvas import COLORS, keep, sheet


def draw_bars(
    groups: Sequence[str], series: Mapping[str, Sequence[float]], file: Path, label: str, axis: str, title: str = ""
) -> None:
    """One group of bars for each of `groups`, in it one bar of each series; the axis starts just below the lowest."""
    figure = sheet(1.15 * len(groups) + 1.5, 4.4)
    axes = figure.subplots()
    width = 0.86 / len(series)
    for i, (name, values) in enumerate(series.items()):
        places = [g + (i - (len(series) - 1) / 2) * width for g in range(len(groups))]
        axes.bar(places, values, width, label=name, color=COLORS[i % len(COLORS)])
    every = [value for values in series.values() for value in values]
    margin = (max(every) - min(every)) / 12 or 1
    axes.set(xticks=range(len(groups)), xticklabels=groups, xlabel=label, ylabel=axis, title=title)
    axes.set_ylim(min(every) - margin, max(every) + margin)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#dddddd", linewidth=0.8)
    axes.set_axisbelow(True)
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    keep(figure, file)
