"""What a network says of itself: one dict, checked in one place, whatever kind of file it comes from."""

from collections.abc import Mapping
from typing import Any

from protoadapt.core.errors import UserError
from protoadapt.core.untrusted import finite, whole

SMALLEST, LARGEST = 8, 1024
"""Pixels per side of a network's input."""
MOST_VIEWS = 1024
"""Views per picture; their mean hardly moves after a dozen."""


def input_errors(values: Mapping[str, Any]) -> list[str]:
    """Which of size, mean and std do not describe a network's input; empty where all do, and features stay finite."""
    fine = {
        "size": whole(values.get("size"), SMALLEST, LARGEST),
        "mean": _three_numbers(values.get("mean"), -1e4),
        "std": _three_numbers(values.get("std"), 1e-4),
    }
    return [key for key in fine if not fine[key]]


def network_metadata(source: str, way_out: str, **values: Any) -> dict[str, Any]:
    """Return the metadata of a network, or raise UserError; files say of themselves what they like.

    `source` and `way_out` are for the error: which network, and what to do. `values`: backbone, width (of its first
    stage; default None), weights (hash), size (pixels per side of its input), mean and std (of pixels in [0, 1]), crop
    (default "none"), dataset (what it was trained on); optionally dim, resize (`decode.Resize` or None) and more.
    """
    values = {"width": None, "crop": "none", **values}
    wrong = [key for key in ("backbone", "crop", "dataset") if not isinstance(values.get(key), str)]
    if not (values.get("width") is None or type(values["width"]) is int):
        wrong.append("width")
    for key in (*wrong, *input_errors(values)):
        bounds = f"; only {SMALLEST} to {LARGEST} pixels per side can be made" if key == "size" else ""
        value = str(values.get(key))[:50]
        raise UserError(f"{source} does not describe its network ({key} is {value}{bounds}): {way_out}")
    return values


def _three_numbers(value: Any, low: float) -> bool:
    return isinstance(value, list) and len(value) == 3 and all(finite(number, low, 1e4) for number in value)


def first_line(error: Exception) -> str:
    """The first line of an error of another library, for a sentence of ours."""
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]
