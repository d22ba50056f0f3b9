"""An ONNX file as an embedding network: one that `protoadapt export` wrote, or any that describes its input.

Metadata of the file (each value JSON): size, mean and std of pixels in [0, 1]. A file that takes uint8 pixels
normalises them itself and needs neither mean nor std.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from protoadapt.core.errors import UserError, count, first_line, install, intact
from protoadapt.core.files import sha256_of
from protoadapt.vision.networks.cards import network_metadata
from protoadapt.vision.networks.onnx_engine import ONNXRUNTIME, onnx_session, stored_metadata
from protoadapt.vision.pictures.decode import stored_resize


class OnnxFeatures(nn.Module):
    """Computes on the CPU, and returns the features on the device that the pixels came from."""

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


def load_onnx(path: Path) -> tuple[OnnxFeatures, dict[str, Any]]:
    """Load the network of an ONNX file and its metadata. Raises UserError where it cannot embed pictures."""
    session = open_onnx(path)
    name = repr(path.name)
    stored = stored_metadata(session)
    if "classes" in stored:
        raise UserError(f"{name} is a classifier, not an embedding network: export it without --classifier")
    network = OnnxFeatures(session)
    shape = network.input.shape  # axes of free size are names
    if network.raw:  # x in [0, 1] becomes 255·x: pixels as they are
        stored |= {"mean": [0.0] * 3, "std": [1 / 255] * 3}
    metadata = network_metadata(
        name,
        "write size, mean and std into its metadata (docs/models.md shows how)",
        backbone=str(stored.get("backbone") or "onnx"),
        weights=sha256_of(path)[:16],
        size=shape[2] if len(shape) == 4 and isinstance(shape[2], int) else stored.get("size"),
        resize=stored_resize(stored.get("resize")),
        mean=stored.get("mean"),
        std=stored.get("std"),
        crop=str(stored.get("crop") or "none"),
        dataset=str(stored.get("dataset") or "unknown"),
        engine=ONNXRUNTIME,
    )
    size = metadata["size"]
    way_out = "export it with one input (B, 3, H, W) and a free batch size, or correct the size in its metadata"
    for pictures in (1, 3):
        with intact(f"{name} fails on {count(pictures, 'picture')} of {size} pixels", way_out):
            rows = network(torch.zeros(pictures, 3, size, size))
            if len(rows) != pictures or not rows.numel():
                raise ValueError(f"it gives shape {tuple(rows.shape)}, not one row per picture")
    return network, metadata | {"dim": rows.shape[1]}


def open_onnx(path: str | Path) -> Any:
    """Open an ONNX file with onnxruntime on the CPU, with as many threads as torch."""
    if not Path(path).is_file():
        raise UserError(f"there is no model {str(path)!r}: check the path")
    try:
        return onnx_session(str(path), torch.get_num_threads())
    except ImportError as error:
        raise UserError(f"{Path(path).name} needs onnxruntime: {install('onnx')}") from error
    except Exception as error:
        if "external" in str(error).lower():
            raise UserError(
                f"{Path(path).name!r} keeps weights in another file, which may change while it stays the same: make it "
                f"one file with onnx.save(onnx.load(FILE), FILE)"
            ) from error
        raise UserError(f"{Path(path).name!r} cannot be read as ONNX: {first_line(error)}") from error
