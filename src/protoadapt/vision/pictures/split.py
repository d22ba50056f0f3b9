"""One split of a dataset: as it lies on disk (`SplitSource`) and decoded (`Images`)."""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from protoadapt.vision.pictures.decode import Picture


@dataclass(frozen=True)
class SplitSource:
    """One split of a dataset on disk. The fingerprint is cheap; `read` is called only when nothing is cached."""

    root: Path
    fingerprint: str
    read: Callable[[], list[Picture]]
    classes: list[str] | None = None  # None: the labels of the pictures


@dataclass(frozen=True, eq=False)
class Images:
    """One split of a dataset, decoded. Rows are in order of class, then name, whatever the layout on disk."""

    pixels: np.ndarray  # (N, 3, H, W) uint8, a read-only memory-map
    labels: np.ndarray  # (N,) int64, into class_names
    class_names: list[str]
    paths: list[str]  # relative to root, one per row
    skipped: list[str]  # pictures that could not be read, and why
    name: str
    split: str
    crop: str
    root: Path  # where the pictures are

    def __len__(self) -> int:
        return len(self.labels)


def fingerprint(parts: Iterable[object]) -> str:
    """sha256 of names, sizes and the text of lists, one part per line."""
    text = "\n".join(map(str, parts))
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
