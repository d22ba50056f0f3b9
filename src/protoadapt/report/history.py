"""What a training history holds, in the words and the styles that a figure gives it."""

from collections.abc import Sequence
from typing import Any, NamedTuple

LOSSES = {"ce": "cross-entropy", "rotation": "rotation", "hct": "HCT", "manifold_mixup": "Manifold Mixup"}
ACCURACIES = {  # words, number of the colour, dashes
    "val_cipa_5": ("CIPA, 5-shot", 1, "-"),
    "val_cipa_1": ("CIPA, 1-shot", 1, "--"),
    "val_protonet_5": ("ProtoNet, 5-shot", 0, "-"),
    "val_protonet_1": ("ProtoNet, 1-shot", 0, "--"),
    "accuracy": ("base classes", -1, ":"),
}
OTHERS = {"epoch", "step", "lr", "seconds", "images_per_second", "loss", "accuracy"}


class Curve(NamedTuple):
    words: str
    color: int  # number of the colour, −1 for the last
    dashes: str  # "-", "--" or ":"
    points: list[tuple[float, float]]


def losses(history: Sequence[dict[str, Any]]) -> list[Curve]:
    """Every part of the loss, the known ones first."""
    there = {name for row in history for name in row if name not in OTHERS and not name.startswith("val_")}
    names = [name for name in LOSSES if name in there] + sorted(there - LOSSES.keys())
    return [Curve(LOSSES.get(name, name), i, "-", _points(history, name)) for i, name in enumerate(names)]


def accuracies(history: Sequence[dict[str, Any]]) -> list[Curve]:
    curves = [Curve(*style, _points(history, name)) for name, style in ACCURACIES.items()]
    return [curve for curve in curves if curve.points]


def _points(history: Sequence[dict[str, Any]], name: str) -> list[tuple[float, float]]:
    return [(row["epoch"], row[name]) for row in history if name in row]
