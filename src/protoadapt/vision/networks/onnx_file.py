"""An ONNX file as an embedding network: one of `protoadapt export`'s, or any that says how its pictures are made.

Metadata of the file (each value JSON): size, mean and std of pixels in [0, 1]. A file that takes uint8 pixels
normalises them itself and needs neither mean nor std.
"""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from protoadapt.core.errors import UserError, install
from protoadapt.core.untrusted import clean_json, normalisation

LARGEST = 1024
"""Pixels a side, as for any picture here."""


class OnnxFeatures(nn.Module):
    """Runs on the CPU, and hands the features back on the device that the pixels came from."""

    def __init__(self, session: Any):
        super().__init__()
        self.session = session
        self.input = session.get_inputs()[0]
        self.one_by_one = self.input.shape[0] == 1
        self.raw = self.input.type == "tensor(uint8)"

    def forward(self, x: Tensor) -> Tensor:
        """(B, 3, H, W), normalised, or from 0 to 255 if the file normalises itself, to (B, D)."""
        pixels = x.cpu().contiguous()
        pixels = pixels.round().clamp(0, 255).byte() if self.raw else pixels.float()
        batches = pixels.split(1) if self.one_by_one else [pixels]
        rows = np.concatenate([self.session.run(None, {self.input.name: batch.numpy()})[0] for batch in batches])
        return torch.from_numpy(rows).flatten(1).float().to(x.device)


def load(path: Path) -> tuple[OnnxFeatures, dict[str, Any]]:
    """The network of a file, and what its metadata say."""
    session = open_session(path)
    told = _metadata(session)
    if "classes" in told:
        raise UserError(
            f"{path.name!r} is a classifier: an embedding network is wanted, export it without --classifier"
        )
    shapes = [given.shape for given in session.get_inputs()]  # axes of free size are names
    if len(shapes) != 1 or len(shapes[0]) != 4 or (isinstance(shapes[0][1], int) and shapes[0][1] != 3):
        raise UserError(f"{path.name!r} does not take one batch of pictures (B, 3, H, W): protoadapt cannot feed it")
    network = OnnxFeatures(session)
    if isinstance(network.input.shape[0], int) and not network.one_by_one:
        raise UserError(f"{path.name!r} takes {network.input.shape[0]} pictures at a time: export it with a free batch")
    about = _normalisation(path, network, told)
    for pictures in (1, 3):
        try:
            rows = network(torch.zeros(pictures, 3, about["size"], about["size"]))
        except Exception as error:  # onnxruntime has no base class of its own for what can go wrong
            reason = _first_line(error)
            raise UserError(f"{path.name!r} fails on a picture of {about['size']} pixels: {reason}") from error
        if len(rows) != pictures or not rows.numel():
            raise UserError(
                f"{path.name!r} gives shape {tuple(rows.shape)} for {pictures} pictures: a row each is wanted"
            )
    with open(path, "rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()[:16]
    about |= {"backbone": str(told.get("backbone") or "onnx"), "width": None, "dim": rows.shape[1], "weights": digest}
    words = {"crop": told.get("crop") or "none", "dataset": told.get("dataset") or "unknown"}
    return network, about | {key: str(word) for key, word in words.items()}


def open_session(path: str | Path) -> Any:
    """onnxruntime on the CPU, with as many threads as torch."""
    try:
        import onnxruntime
    except ImportError as error:
        raise UserError(f"{Path(path).name} needs onnxruntime: {install('onnx')}") from error
    if not Path(path).is_file():
        raise UserError(f"there is no model {str(path)!r}: check the path")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 4  # its own words on a broken file would come before ours
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise UserError(f"{Path(path).name!r} cannot be read as ONNX: {_first_line(error)}") from error


def _metadata(session: Any) -> dict[str, Any]:
    """Values that are JSON, as what they mean; others as text."""
    told = {}
    for key, value in session.get_modelmeta().custom_metadata_map.items():
        try:
            told[key] = clean_json(value)
        except (ValueError, RecursionError):
            told[key] = value
    return told


def _normalisation(path: Path, network: OnnxFeatures, told: dict[str, Any]) -> dict[str, Any]:
    side = network.input.shape[2]
    size = side if isinstance(side, int) else told.get("size")
    mean, std = told.get("mean"), told.get("std")
    if network.raw:  # x in [0, 1] becomes 255·x: pixels as they are
        mean, std = [0.0] * 3, [1 / 255] * 3
    if type(size) is not int or not normalisation(mean, std):
        raise UserError(
            f"{path.name!r} does not say how pictures are made for it: write size, mean and std into its metadata "
            f"(docs/models.md shows how)"
        )
    if not 8 <= size <= LARGEST:
        raise UserError(f"{path.name!r} wants pictures of {size} pixels: 8 to {LARGEST} can be made")
    return {"size": size, "mean": mean, "std": std}


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__
