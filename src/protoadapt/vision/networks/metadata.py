"""What a network says of itself: one dict, built and checked in one place, whatever kind of file it comes from."""

from typing import Any

from protoadapt.core.errors import UserError
from protoadapt.core.untrusted import normalisation, whole

SMALLEST, LARGEST = 8, 1024
"""Pixels per side of a network's input."""


def network_metadata(source: str, way_out: str, **values: Any) -> dict[str, Any]:
    """Check the metadata of a network; files say of themselves what they like.

    Parameters
    ----------
    source : the name of the network or file, for error messages.
    way_out : what to do about wrong metadata, for error messages.
    values : backbone (name), width (channels of its first stage, or None), weights (hash), size (pixels per side of its
        input), mean and std (three numbers each, of pixels in [0, 1]), crop and dataset (what it was trained on);
        optionally dim (of its features), resize (`decode.Resize`, or None) and more.

    Returns
    -------
    The values. Raises UserError.
    """
    kinds = {key: isinstance(values.get(key), str) for key in ("backbone", "crop", "dataset")}
    kinds["width"] = values.get("width") is None or type(values["width"]) is int
    kinds["size"] = type(values.get("size")) is int
    kinds["mean"] = kinds["std"] = normalisation(values.get("mean"), values.get("std"))
    for key, fine in kinds.items():
        if not fine:
            raise UserError(f"{source} does not describe its network ({key} is {str(values.get(key))[:50]}): {way_out}")
    if not whole(values["size"], SMALLEST, LARGEST):
        raise UserError(
            f"{source} takes pictures of {values['size']} pixels per side, and only {SMALLEST} to {LARGEST} can be "
            f"made: use another network"
        )
    return values
