"""How a training run went: its losses, and what it named rightly, epoch by epoch."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from protoadapt.report.canvas import COLORS, keep, sheet
from protoadapt.report.history import accuracies, losses


def draw_curves(history: Sequence[dict[str, Any]], file: Path, title: str = "") -> None:
    """`history` is that of a run's result: one dict an epoch."""
    figure = sheet(10, 4)
    left, right = figure.subplots(1, 2)
    for axes, curves in ((left, losses(history)), (right, accuracies(history))):
        for words, color, dashes, points in curves:
            style: dict[str, Any] = {"color": COLORS[color % len(COLORS)], "marker": "o", "markersize": 4}
            axes.plot(*zip(*points), dashes, linewidth=1.6, label=words, **style)
    left.set(title="training loss", xlabel="epoch", ylim=(0, None))
    right.set(title="named rightly, %", xlabel="epoch", ylim=(0, 100))
    for axes in (left, right):
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color="#dddddd", linewidth=0.8)
        axes.set_axisbelow(True)
        axes.legend(frameon=False)
    figure.suptitle(title)
    keep(figure, file)
