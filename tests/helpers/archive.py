"""What the tests of shards share: a tiny network, pictures, and what a folder holds."""

import hashlib
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from protoadapt.vision.networks.backbones import build
from protoadapt.vision.networks.model_files import save_fp16

ABOUT = {"backbone": "resnet12", "width": 2, "size": 16, "mean": [0.5] * 3, "std": [0.25] * 3}
ABOUT |= {"crop": "none", "dataset": "noise", "class_names": []}


def save_model(path: Path, seed: int = 0) -> Path:
    torch.manual_seed(seed)
    save_fp16(build("resnet12", 2).eval(), ABOUT, path)
    return path


def contents(folder: Path) -> dict[str, str]:
    """sha256 of every file by name."""
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(folder.iterdir()) if p.is_file()}


def write_picture(path: Path, rng: np.random.Generator, shade: int = 128) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = rng.integers(-60, 60, (20, 24, 3)) + shade
    Image.fromarray(noise.clip(0, 255).astype(np.uint8)).save(path)
