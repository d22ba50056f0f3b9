"""Decoded datasets on disk: pictures are decoded once and read from there.

An entry is a file of pixels (N, 3, S, S) uint8, memory-mapped, and beside it, written last, a .json with their labels,
classes, paths and the pictures that were skipped. Its name holds a fingerprint of everything that matters, the names,
sizes and times of the source files included.
"""

import json
import os
import warnings
from collections.abc import Callable
from itertools import groupby, islice
from pathlib import Path
from typing import Any

import numpy as np

from protoadapt.core.errors import BROKEN, UserError
from protoadapt.core.files import write_text, written_whole
from protoadapt.core.threads import ahead, cores
from protoadapt.vision.pictures.decode import Picture, Resize, decode
from protoadapt.vision.pictures.formats import quiet_pillow, reason
from protoadapt.vision.pictures.split import SplitSource

FORMAT = 4  # of an entry and of what `decode` makes: raised when either changes, so that old entries are left alone
CHUNK = 64  # pictures per job of a thread
Progress = Callable[[int, int], None]
"""Called with the pictures decoded so far and their total."""


def read_pixels(entry: Path, size: int) -> dict[str, Any] | None:
    """The pixels, labels, class_names, paths and skipped of an entry; None where it is missing or cut short."""
    index_file = entry.with_name(f"{entry.name}.json")
    if not index_file.is_file():
        return None
    try:
        index = json.loads(index_file.read_bytes())
        tables = {key: index[key] for key in ("class_names", "paths", "skipped")}
        labels = np.array(index["labels"], np.int64)
        shape = (len(index["paths"]), 3, size, size)
        if entry.stat().st_size != np.prod(shape) or labels.shape != shape[:1]:
            raise ValueError("its files do not fit each other")
        if not len(labels) or not 0 <= labels.min() <= labels.max() < len(index["class_names"]):
            raise ValueError("its labels name no classes")
        return {"pixels": np.memmap(entry, np.uint8, "r", shape=shape), "labels": labels} | tables
    except BROKEN as error:
        warnings.warn(f"the cached pictures in {entry} are broken ({error}) and decoded again", stacklevel=3)
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
    fixed: bool = False,
    on_progress: Progress = lambda done, total: None,
) -> None:
    """Decodes pictures, as `in_order` returns them, into a new entry, whole or not at all.

    Pictures that cannot be read are left out and listed with `skip`; otherwise the first one is a UserError. A class of
    which none is left is left out too, unless the classes are `fixed`.
    """
    with written_whole(entry) as partial:
        pixels = np.memmap(partial, np.uint8, "w+", shape=(len(pictures), 3, size, size))
        with open(partial, "rb+") as file:  # a full disk is an error here, where later it would be a crash
            getattr(os, "posix_fallocate", lambda *_: None)(file.fileno(), 0, pixels.nbytes)
        bad = _decode_all(pictures, pixels, resize, skip, on_progress)
        kept = [row for row in range(len(pictures)) if row not in bad]
        if not kept:
            raise unreadable(bad[0])
        left = {pictures[row].label for row in kept}
        if fixed and (none := [label for label in classes if label not in left]):
            example = next(bad[row] for row in sorted(bad) if pictures[row].label == none[0])
            raise UserError(f"no picture of the class {none[0]!r} can be read, such as {example}: download it again")
        for start in range(0, len(kept) if bad else 0, CHUNK):  # over the skipped: rows only move forward
            rows = kept[start : start + CHUNK]
            pixels[start : start + len(rows)] = pixels[rows]
        pixels.flush()
        os.truncate(partial, len(kept) * 3 * size * size)
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
    pictures: list[Picture],
    pixels: np.ndarray,
    resize: Resize | None,
    skip: bool,
    on_progress: Progress,
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
