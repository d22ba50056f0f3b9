"""Decoded pictures with their labels."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np


@dataclass(frozen=True, eq=False)
class Images:
    """One split of a dataset, decoded. Rows are in order of class, then name, whatever the layout on disk."""

    pixels: np.ndarray  # (N, 3, H, W) uint8, a read-only memory-map
    labels: np.ndarray  # (N,) int64, into class_names
    class_names: list[str]
    paths: list[str]  # relative to root, one a row
    skipped: list[str]  # pictures that could not be read, and why
    name: str
    split: str
    crop: str
    root: Path  # where the pictures are

    def __len__(self) -> int:
        return len(self.labels)
