"""One split of a dataset: as it lies on disk (`SplitSource`), and decoded (`Images`), once, into a cache on disk.

An entry of the cache is a file of pixels (N, 3, S, S) uint8, memory-mapped, and beside it, written last, a .json with
their labels, classes, paths and the pictures that were skipped. Its name holds a fingerprint of everything that
matters, the names, sizes and times of the source files included.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import groupby, islice
from pathlib import Path
from typing import Any

import numpy as np

from protoadapt.core.errors import BROKEN, UserError
from protoadapt.core.files import write_text, written_whole
from protoadapt.core.threads import ahead, cores
from protoadapt.vision.pictures.decode import Picture, Resize, decode
from protoadapt.vision.pictures.formats import quiet_pillow, reason

FORMAT = 4  # of an entry and of what `decode` makes: raised when either changes, so that old entries are left alone
CHUNK = 64  # pictures per job of a thread
_Progress = Callable[[int, int], None]
"""Called with the pictures decoded so far and their total."""


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


def read_pixels(entry: Path, size: int) -> dict[str, Any] | None:
    """The pixels, labels, class_names, paths and skipped of an entry; None where it is missing or cut short."""
    try:
        index = json.loads(entry.with_name(f"{entry.name}.json").read_bytes())
        shape = (len(index["paths"]), 3, size, size)
        if entry.stat().st_size != np.prod(shape):
            return None
        pixels = np.memmap(entry, np.uint8, "r", shape=shape)
        return index | {"pixels": pixels, "labels": np.array(index["labels"], np.int64)}
    except BROKEN:
        return None


def in_order(source: SplitSource, per_class: int | None, n_classes: int) -> tuple[list[Picture], list[str]]:
    """The pictures of a split by class and name, and its classes.

    Raises UserError where a class has no pictures, or where there are not `n_classes` of them (0: any number).
    """
    pictures = sorted(source.read(), key=lambda picture: (picture.label, picture.name))
    by_class = {label: list(group) for label, group in groupby(pictures, key=lambda picture: picture.label)}
    classes = sorted(by_class if source.classes is None else source.classes)
    missing = [label for label in classes if label not in by_class]
    if missing or (n_classes and len(classes) != n_classes):
        first = f"; {missing[0]!r} is missing" if missing else ""
        raise UserError(
            f"{source.root} has {len(classes) - len(missing)} of the {n_classes} classes of this split{first}: "
            f"`protoadapt data` lists what is missing"
        )
    return [picture for label in classes for picture in islice(by_class[label], per_class)], classes


def write_pixels(
    entry: Path,
    pictures: list[Picture],
    classes: list[str],
    size: int,
    *,
    resize: Resize | None = None,
    skip: bool = False,
    on_progress: _Progress = lambda done, total: None,
) -> None:
    """Decodes pictures, as `in_order` returns them, into a new entry, whole or not at all.

    Pictures that cannot be read are left out and listed with `skip`; otherwise the first one is a UserError. A class of
    which none is left is left out too.
    """
    with written_whole(entry) as partial:
        pixels = np.memmap(partial, np.uint8, "w+", shape=(len(pictures), 3, size, size))
        with open(partial, "rb+") as file:  # a full disk is an error here, where later it would be a crash
            getattr(os, "posix_fallocate", lambda *_: None)(file.fileno(), 0, pixels.nbytes)
        bad = _decode_all(pictures, pixels, resize, skip, on_progress)
        kept = [row for row in range(len(pictures)) if row not in bad]
        if not kept:
            raise unreadable(bad[0])
        if bad:
            for start in range(0, len(kept), CHUNK):  # over the skipped: rows only move forward
                rows = kept[start : start + CHUNK]
                pixels[start : start + len(rows)] = pixels[rows]
        pixels.flush()
        os.truncate(partial, len(kept) * 3 * size * size)
    left = {pictures[row].label for row in kept}
    classes = [label for label in classes if label in left]
    number = {label: i for i, label in enumerate(classes)}
    index = {
        "class_names": classes,
        "paths": [pictures[row].name for row in kept],
        "skipped": [bad[row] for row in sorted(bad)],
        "labels": [number[pictures[row].label] for row in kept],
    }
    write_text(entry.with_name(f"{entry.name}.json"), json.dumps(index))


def _decode_all(
    pictures: list[Picture], pixels: np.ndarray, resize: Resize | None, skip: bool, on_progress: _Progress
) -> dict[int, str]:
    """Decodes every picture into its row of pixels; returns the rows that could not be read, with the reason.

    In threads, since pillow releases Python's lock while it decodes and resizes: no picture is sent between processes,
    and a script that calls `load` needs no `__main__` guard.
    """
    size = pixels.shape[-1]

    def work(rows: range) -> dict[int, str]:
        bad = {}
        for row in rows:
            try:
                pixels[row] = decode(pictures[row], size, resize)
            except Exception as error:  # a broken file may fail in any way
                bad[row] = f"{pictures[row].name} ({reason(error, pictures[row].name)})"
        return bad

    chunks = [range(start, min(start + CHUNK, len(pictures))) for start in range(0, len(pictures), CHUNK)]
    bad: dict[int, str] = {}
    with quiet_pillow():
        for rows, wrong in zip(chunks, ahead(work, chunks, 4 * cores())):
            bad |= wrong
            if bad and not skip:
                raise unreadable(bad[min(bad)])
            on_progress(rows.stop, len(pictures))
    return bad


def unreadable(which: str) -> UserError:
    """The error for a picture that cannot be read, `which` being its name and the reason."""
    return UserError(f"a picture cannot be read, {which}: replace it, remove it, or use --skip-corrupt")
