"""A file of features or prototypes is of use with its own network only."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from protoadapt.core.errors import UserError

T = TypeVar("T")


def load_same(
    model: str | Path | None,
    named: str,
    weights: str,
    what: str,
    load: Callable[[str | Path], tuple[T, dict[str, Any]]],
) -> tuple[T, dict[str, Any]]:
    """The network that `what` made, and its metadata, as `load` returns them (`networks.load`).

    model: the user's choice; None: the one that a file names. Only users have a network downloaded, never a file, which
    may come from anywhere.
    """
    if model is None and named.startswith("timm:"):
        raise UserError(
            f"{what} made with the network {named!r}, which may have to be downloaded: if you want that, give "
            f"--model {named!r}"
        )
    network, metadata = load(model or named)
    if metadata["weights"] != weights:
        raise UserError(
            f"the model {metadata['model']!r} has other weights ({metadata['weights']}) than the one that {what} made "
            f"with ({weights}), and features of two models do not mix: give that one with --model"
        )
    return network, metadata
