"""Tiny networks with random weights, and model files of them."""

from pathlib import Path

import torch
from torch import nn

from paper.networks import save_fp16
from protoadapt.vision.networks.backbones import Staged, build

ABOUT = {"backbone": "resnet12", "width": 2, "size": 16, "mean": [0.5] * 3, "std": [0.25] * 3}
ABOUT |= {"crop": "none", "dataset": "noise", "class_names": []}


def random_network(name: str, width: int = 4) -> Staged:
    """With BatchNorms that change their input: fresh ones do nothing in evaluation."""
    network = build(name, width).eval()
    for part in network.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.running_mean.uniform_(-0.5, 0.5)
            part.running_var.uniform_(0.5, 2.0)
            part.weight.data.uniform_(0.5, 2.0)
            part.bias.data.uniform_(-0.5, 0.5)
    return network


def save_model(path: Path, seed: int = 0, **changes: object) -> Path:
    """A model file, of which ABOUT and the changes are true."""
    about = ABOUT | changes
    torch.manual_seed(seed)
    save_fp16(build(about["backbone"], about["width"]).eval(), about, path)
    return path
