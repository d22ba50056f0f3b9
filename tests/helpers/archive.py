"""What the tests of shards share: a tiny network, pictures, and what a folder holds."""

import csv
import hashlib
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from protoadapt.labeling import label
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


def label_features(support, features, out, **options):
    """`label` of a table."""
    return label(support, None, out, features=features, **options)


CLASSES = {"a": "dark", "b": "mid", "c": "light"}  # by folder, as the archive's pictures are shaded


def write_csv(path: Path, names: list[str], shots: int) -> dict[str, str]:
    """A table of the first `shots` pictures of each class."""
    chosen = {n: CLASSES[f] for f in "abc" for n in [n for n in names if n[0] == f][:shots]}
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([("file", "label"), *chosen.items()])
    return chosen


def of(folder: Path) -> dict[str, dict]:
    """The rows of labels*.parquet by file."""
    pq = pytest.importorskip("pyarrow.parquet")
    rows = [row for path in sorted(folder.glob("labels*.parquet")) for row in pq.read_table(path).to_pylist()]
    return {row["file"]: row for row in rows}


def copy_of(archive: Path, name: str, place: Path) -> None:
    """Copies a picture of the archive."""
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes((archive / name).read_bytes())
