"""Any network of timm as a source of features. It cannot be trained here: it has no mixing layers."""

import hashlib
import sys
from types import ModuleType
from typing import Any

import torch
from torch import nn

from protoadapt.core.errors import UserError, first_line, install, intact
from protoadapt.vision.networks.cards import network_metadata
from protoadapt.vision.networks.timm_names import PREFIX, Source
from protoadapt.vision.pictures.decode import Resize


def import_timm() -> ModuleType:
    """Imports timm, an optional extra. Raises UserError, with the line to type where it cannot be."""
    try:
        import timm
    except ImportError as error:
        raise UserError(f"networks of timm need timm: {install('timm')}") from error
    except RuntimeError as error:  # torchvision, which timm imports, made for another torch
        raise UserError(
            f"timm does not load here ({first_line(error)}), as torch and torchvision come from two indexes: install "
            f"both from one, pip install --force-reinstall torch torchvision (with the --index-url that torch had)"
        ) from error
    return timm


def load_timm(source: Source) -> tuple[nn.Module, dict[str, Any]]:
    """Load a network of timm with weights from a file (safetensors, or a state dict of torch, from which no code runs),
    and the resizing and normalisation it was trained for."""
    timm = import_timm()
    name, file, size, _ = source
    try:
        settings = timm.get_pretrained_cfg(name).to_dict()
        other_size = {"img_size": size} if size and size != settings["input_size"][-1] else {}
        network: Any = timm.create_model(name, num_classes=0, **other_size).eval()
    except Exception as error:  # an unknown name
        raise UserError(
            f"timm has no network {name!r} ({first_line(error)}): choose one that timm.list_models() lists"
        ) from error
    with intact(f"{str(file)!r} holds no weights of this network", "give the file of its own"):
        weights = timm.models.load_state_dict(str(file), weights_only=True)
        if convert := getattr(sys.modules[type(network).__module__], "checkpoint_filter_fn", None):
            weights = convert(weights, network)  # from the form that its authors published, and to another size
        if missing := network.load_state_dict(weights, strict=False).missing_keys:  # the classifier is left over
            raise ValueError(f"it lacks {missing[0]!r}")
    channels, height, width = settings["input_size"]
    resize = _resize(settings)
    if channels != 3 or height != width or resize.mode not in ("center", "squash"):
        raise UserError(
            f"{PREFIX}{name} takes inputs of {channels} × {height} × {width} ({resize.mode}), which protoadapt cannot "
            f"make: choose a network for square RGB pictures"
        )
    size = size or height
    with torch.inference_mode():
        dim = network(torch.zeros(1, 3, size, size)).shape[1]  # not always `num_features`: MobileNetV3 has a head
    return network, network_metadata(
        f"{PREFIX}{name}",
        "choose another network",
        backbone=f"{PREFIX}{name}",
        dim=dim,
        weights=hashlib.sha256(f"{source.digest} {tuple(resize)}".encode()).hexdigest()[:16],
        size=size,
        resize=resize,
        mean=list(settings["mean"]),
        std=list(settings["std"]),
        dataset=str(settings.get("tag") or "as timm says"),
        licence=settings.get("license"),
    )


def _resize(settings: dict[str, Any]) -> Resize:
    """timm's evaluation transform, with the defaults of `timm.data.resolve_data_config`."""
    interpolation = settings.get("interpolation") or "bicubic"
    return Resize(float(settings.get("crop_pct") or 0.875), interpolation, settings.get("crop_mode") or "center")
