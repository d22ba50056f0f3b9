"""Any network of timm as a source of features. It cannot be trained here: it has no mixing layers."""

import hashlib
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save
from torch import nn

from protoadapt.core.errors import UserError, first_line, install, intact
from protoadapt.vision.networks.cards import network_metadata
from protoadapt.vision.networks.model_files import plain
from protoadapt.vision.pictures.decode import Resize


def load_timm(name: str, pretrained: bool = True) -> tuple[nn.Module, dict[str, Any]]:
    """Load a network of timm, an optional extra, with the input size, resizing and normalisation it was trained for.

    name : as timm writes it; with NAME@FILE the weights come from a file, and nothing is downloaded.
    """
    name, _, file = name.partition("@")
    try:
        import timm
    except ImportError as error:
        raise UserError(f"timm:{name} needs timm: {install('timm')}") from error
    except RuntimeError as error:  # torchvision, which timm imports, made for another torch
        raise UserError(f"timm does not load here ({error}): install the torchvision that fits this torch") from error
    try:
        network: Any = timm.create_model(name, pretrained=pretrained and not file, num_classes=0).eval()
    except Exception as error:  # an unknown name, weights that are not published, no network connection
        raise UserError(
            f"timm cannot load the network {name!r} ({first_line(error)}): choose one that "
            f"timm.list_models(pretrained=True) lists; the first use downloads the weights, unless they come from a "
            f"file (timm:{name}@FILE)"
        ) from error
    if file:
        _fill(network, Path(file))
    settings = network.pretrained_cfg
    channels, height, width = settings["input_size"]
    resize = _resize(settings)
    if channels != 3 or height != width or resize.mode not in ("center", "squash"):
        raise UserError(
            f"timm:{name} takes inputs of {channels} × {height} × {width} ({resize.mode}), which protoadapt cannot "
            f"make: choose a network for square RGB pictures"
        )
    with torch.inference_mode():
        dim = network(torch.zeros(1, 3, height, width)).shape[1]  # not always `num_features`: MobileNetV3 has a head
    decides = repr(tuple(resize)).encode() + save(plain(network.state_dict()))  # stored features depend on both
    return network, network_metadata(
        f"timm:{name}",
        "choose another network",
        backbone=f"timm:{name}",
        dim=dim,
        weights=hashlib.sha256(decides).hexdigest()[:16],
        size=int(height),
        resize=resize,
        mean=list(settings["mean"]),
        std=list(settings["std"]),
        dataset=str(settings.get("tag") or "as timm says"),
    )


def _fill(network: nn.Module, file: Path) -> None:
    """Load the weights of a file, safetensors or a state dict of torch, into a network. No code runs."""
    with intact(f"{str(file)!r} holds no weights of this network", "give the file of its own"):
        weights = load_file(file) if file.suffix == ".safetensors" else torch.load(file, "cpu", weights_only=True)
        if missing := network.load_state_dict(weights, strict=False).missing_keys:  # the classifier is left over
            raise ValueError(f"it lacks {missing[0]!r}")


def _resize(settings: dict[str, Any]) -> Resize:
    """timm's evaluation transform, with the defaults of `timm.data.resolve_data_config`."""
    interpolation = settings.get("interpolation") or "bicubic"
    return Resize(float(settings.get("crop_pct") or 0.875), interpolation, settings.get("crop_mode") or "center")
