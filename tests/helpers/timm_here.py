"""timm in this process, where it can be imported."""

import importlib.util

import pytest
import torch

_operators = []


def timm_or_skip():
    """timm. Beside a CPU build of torch, torchvision lacks operators that it describes: those are declared."""
    if importlib.util.find_spec("timm") is None:
        pytest.skip("timm is not installed")
    if not hasattr(torch.ops.torchvision, "nms"):
        _operators.append(library := torch.library.Library("torchvision", "FRAGMENT"))
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    import timm

    return timm


def random_weights(name, path, **given):
    """A file of random weights, and the network that has them."""
    network = timm_or_skip().create_model(name, num_classes=0, **given).eval()
    torch.save(network.state_dict(), path)
    return network
