"""One split of a dataset: as it lies on disk (`SplitSource`), and decoded (`Images`), once, into a cache on disk.

An entry of the cache is a file of pixels (N, 3, S, S) uint8, memory-mapped, and beside it, written last, a .json with
their labels, classes, paths and the pictures that were skipped. Its name holds a fingerprint of everything that
matters, the names, sizes and times of the source files included.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby, islice
from pathlib import Path
from typing import Any

import numpy as np

from protoadapt.core.errors import UserError
from protoadapt.core.files import write_text, written_whole
from protoadapt.core.threads import ahead, cores
from protoadapt.vision.pictures.decode import Picture, Resize, decode
from protoadapt.vision.pictures.formats import quiet_pillow, reason

FORMAT = 4  # of an entry and of what `decode` makes: raised when either changes, so that old entries are left alone
_AHEAD = 16  # pictures per core that are decoded before they are written
_REPORTED = 64  # pictures between two reports of progress


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
    """The pixels, labels, class_names, paths and skipped of an entry; None where it is missing or damaged."""
    try:
        index = json.loads(entry.with_name(f"{entry.name}.json").read_bytes())
        if index.pop("sha256") != checksum(entry, index):
            return None
        pixels = np.memmap(entry, np.uint8, "r", shape=(len(index["paths"]), 3, size, size))
        return index | {"pixels": pixels, "labels": np.array(index["labels"], np.int64)}
    except Exception:  # it may hold anything
        return None


def checksum(pixels: Path, index: Mapping[str, Any]) -> str:
    """The sha256 of an entry: of its pixels, and what its index says of them."""
    with open(pixels, "rb") as file:
        digest = hashlib.file_digest(file, "sha256")
    digest.update(json.dumps(index).encode())
    return digest.hexdigest()


def in_order(source: SplitSource, per_class: int | None, n_classes: int) -> list[Picture]:
    """The pictures of a split by class and name.

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
    return [picture for label in classes for picture in islice(by_class[label], per_class)]


def write_pixels(
    entry: Path,
    pictures: list[Picture],
    size: int,
    *,
    resize: Resize | None = None,
    skip: bool = False,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> None:
    """Decodes pictures, as `in_order` returns them, into a new entry, whole or not at all.

    Pictures that cannot be read are left out and listed with `skip`; otherwise the first one is a UserError. A class of
    which none is left is left out too. `on_progress` is called with the pictures decoded so far and their total.

    In threads, since pillow releases Python's lock while it decodes and resizes: no picture is sent between processes,
    and a script that calls `load` needs no `__main__` guard.
    """

    def work(picture: Picture) -> np.ndarray | str:
        try:
            return decode(picture, size, resize)
        except Exception as error:  # a broken file may fail in any way
            return f"{picture.name} ({reason(error, picture.name)})"

    kept: list[Picture] = []
    skipped: list[str] = []
    with written_whole(entry) as partial, open(partial, "wb") as file, quiet_pillow():
        for picture, answer in zip(pictures, ahead(work, pictures, _AHEAD * cores())):
            if isinstance(answer, str):
                skipped.append(answer)
            else:
                kept.append(picture)
                file.write(answer.tobytes())
            done = len(kept) + len(skipped)
            if skipped and (not skip or len(skipped) == len(pictures)):
                raise unreadable(skipped[0])
            if done % _REPORTED == 0 or done == len(pictures):
                on_progress(done, len(pictures))
    classes = list(dict.fromkeys(picture.label for picture in kept))
    number = {label: i for i, label in enumerate(classes)}
    index = {
        "class_names": classes,
        "paths": [picture.name for picture in kept],
        "skipped": skipped,
        "labels": [number[picture.label] for picture in kept],
    }
    write_text(entry.with_name(f"{entry.name}.json"), json.dumps(index | {"sha256": checksum(entry, index)}))


def unreadable(which: str) -> UserError:
    """The error for a picture that cannot be read, `which` being its name and the reason."""
    return UserError(f"a picture cannot be read, {which}: replace it, remove it, or use --skip-corrupt")
