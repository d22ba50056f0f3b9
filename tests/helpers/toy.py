"""Small pictures, small configs, and ways for a training process to die: shared by the tests of training."""

import json
import os
import signal
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from torch import nn

from protoadapt.training import Phase, TrainConfig, checkpoint
from protoadapt.vision.networks.backbones import Staged

SIDE = 16


def images(classes=4, each=12, seed=0, side=SIDE):
    """Noisy copies of one random picture a class."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(classes), each)
    clean = rng.integers(0, 256, (classes, 3, side, side))
    noisy = clean[labels] + rng.normal(0, 30, (len(labels), 3, side, side))
    pixels = np.clip(noisy, 0, 255).astype(np.uint8)
    return SimpleNamespace(pixels=pixels, labels=labels, class_names=[f"class {c}" for c in range(classes)])


def config(**changes) -> TrainConfig:
    """HCT_R in six steps of two epochs, Conv-4 with four channels."""
    phases = (Phase(0.5, {"ce": 1.0, "rotation": 1.0}), Phase(1.0, {"ce": 1.0, "rotation": 1.0, "hct": 1.0}))
    small = {"dataset": "toy", "size": SIDE, "backbone": "conv4", "width": 4, "batch": 16, "epochs": 2}
    return TrainConfig(**{**small, "phases": phases, "validation_episodes": 4, "validate_every": 1, **changes})


def plain(width: int = 4) -> Staged:
    """A network without BatchNorm, whose result cannot depend on how a batch is split."""
    widths = [3, width, 2 * width]
    stages = [
        nn.Sequential(nn.Conv2d(a, b, 3, padding=1, bias=False), nn.ReLU(), nn.MaxPool2d(2))
        for a, b in zip(widths, widths[1:])  # noqa: RUF007
    ]
    return Staged(stages, dim=widths[-1])


def files(run: Path) -> dict[str, bytes]:
    """Everything the last checkpoint of a run learned, byte by byte, and its history without the clock."""
    folder = checkpoint.latest(run)
    state = json.loads((folder / "state.json").read_text())["state"]
    for row in state["history"]:
        del row["seconds"], row["images_per_second"]
    del state["seconds"]
    learned = {name: (folder / name).read_bytes() for name in ("model.safetensors", "state.safetensors")}
    return {**learned, "folder": folder.name, "state": json.dumps(state)}


def call_at(owner, name: str, number: int, act, put=setattr) -> None:
    """Call `act` before the call number `number` (from 1) of owner.name. `put` by monkeypatch ends with the test."""
    original, calls = getattr(owner, name), []

    def wrapped(*arguments, **named):
        calls.append(1)
        if len(calls) == number:
            act(*arguments)
        return original(*arguments, **named)

    put(owner, name, wrapped)


def die(*_) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_half_written(path: Path, content: bytes) -> None:
    path.write_bytes(content[: len(content) // 2])
    die()
