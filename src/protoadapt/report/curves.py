"""How a training run went: its losses, and what it named rightly, epoch by epoch."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from protoadapt.report.canvas import COLORS, keep, sheet

LOSSES = {"ce": "cross-entropy", "rotation": "rotation", "hct": "HCT", "manifold_mixup": "Manifold Mixup"}
ACCURACIES = {
    "val_cipa_5": ("CIPA, 5-shot", COLORS[1], "-"),
    "val_cipa_1": ("CIPA, 1-shot", COLORS[1], "--"),
    "val_protonet_5": ("ProtoNet, 5-shot", COLORS[0], "-"),
    "val_protonet_1": ("ProtoNet, 1-shot", COLORS[0], "--"),
    "accuracy": ("base classes", COLORS[9], ":"),
}


def draw_curves(history: Sequence[dict[str, Any]], file: Path, title: str = "") -> None:
    """`history` is that of a run's result: one dict an epoch."""
    figure = sheet(10, 4)
    left, right = figure.subplots(1, 2)
    names = [
        name for name in (*LOSSES, *sorted({n for row in history for n in row})) if any(name in r for r in history)
    ]
    skip = {"epoch", "step", "lr", "seconds", "images_per_second", "loss", "accuracy"}
    losses = [name for name in dict.fromkeys(names) if name not in skip and not name.startswith("val_")]
    for name, color in zip(losses, COLORS):
        _line(left, history, name, LOSSES.get(name, name), color, "-")
    for name, (words, color, dashes) in ACCURACIES.items():
        _line(right, history, name, words, color, dashes)
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


def _line(axes: Any, history: Sequence[dict[str, Any]], name: str, words: str, color: str, dashes: str) -> None:
    points = [(row["epoch"], row[name]) for row in history if name in row]
    if points:
        axes.plot(*zip(*points), dashes, color=color, marker="o", markersize=4, linewidth=1.6, label=words)
