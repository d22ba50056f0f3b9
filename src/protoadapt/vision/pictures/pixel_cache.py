"""Cache of decoded datasets: pictures are decoded once into a memory-map and read from there.

An entry is a folder, made under another name and renamed when complete, so that it is there completely or not at all:
pixels.bin (N, 3, H, W) uint8, labels.npy, index.json and SHA256SUMS (`sha256sum -c` reads it). Its name holds a
fingerprint of everything that matters, the names, sizes and times of the source files included. What is read from it
is compared with its checksums first.
"""

import json
import os
import shutil
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import as_completed
from contextlib import contextmanager
from itertools import groupby, islice
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
from filelock import FileLock

from protoadapt.core.errors import UserError
from protoadapt.core.files import sha256_of
from protoadapt.core.threads import thread_pool
from protoadapt.vision.pictures.decode import Picture, Resize, decode
from protoadapt.vision.pictures.formats import quiet_pillow, reason
from protoadapt.vision.pictures.split import SplitSource

FORMAT = 3  # of an entry and of what `decode` makes: raised when either changes, so that old entries are left alone
CHUNK = 128  # pictures per job of a thread
FILES = ("pixels.bin", "labels.npy", "index.json")
Progress = Callable[[int, int], None]
"""Called with the pictures decoded so far and their total."""


def read(entry: Path, size: int, verify: bool) -> dict[str, Any] | None:
    """The pixels, labels, class_names, paths and skipped of an entry; None where it is missing or damaged.

    Every file is compared with its checksum; without `verify` all but the pixels, which may be gigabytes. An
    entry whose pictures do not have the side `size`, such as one that was renamed, is damaged.
    """
    if not entry.is_dir():
        return None
    try:
        sums = (entry / "SHA256SUMS").read_text().splitlines()
        for file in FILES if verify else FILES[1:]:
            if f"{sha256_of(entry / file)}  {file}" not in sums:
                raise ValueError(f"{file} does not match its checksum")
        index = json.loads((entry / "index.json").read_text())
        labels = np.load(entry / "labels.npy", allow_pickle=False)
        shape, tables = tuple(index["shape"]), {key: index[key] for key in ("class_names", "paths", "skipped")}
        if (entry / "pixels.bin").stat().st_size != np.prod(shape) or not len(labels) == len(index["paths"]) == shape[
            0
        ]:
            raise ValueError("its files are cut short")
        if shape[1:] != (3, size, size):
            raise ValueError(f"its pictures are {shape[-1]} pixels wide, not {size}")
        if not len(labels) or not 0 <= labels.min() <= labels.max() < len(index["class_names"]):
            raise ValueError("its labels name no classes")
        return {"pixels": np.memmap(entry / "pixels.bin", np.uint8, "r", shape=shape), "labels": labels} | tables
    except (OSError, ValueError, KeyError, TypeError, EOFError, RecursionError) as error:
        warnings.warn(f"the cached pictures in {entry} are broken ({error}) and decoded again", stacklevel=3)
        return None


@contextmanager
def alone(entry: Path) -> Iterator[None]:
    """Let one process at a time make an entry. The lock ends with the process that holds it."""
    try:
        entry.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(f"{entry}.lock")
        lock.acquire()
    except OSError as error:
        raise UserError(
            f"the cache {entry.parent} cannot be written ({error}): choose another folder with --cache DIR"
        ) from error
    try:
        yield
    finally:
        lock.release()


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


def write(
    entry: Path,
    pictures: list[Picture],
    classes: list[str],
    size: int,
    *,
    resize: Resize | None = None,
    skip: bool = False,
    fixed: bool = False,
    workers: int | None = None,
    on_progress: Progress = lambda done, total: None,
) -> None:
    """Decode pictures, as `in_order` returns them, into a new entry; the caller is `alone`.

    Pictures that cannot be read are left out and listed with `skip`; otherwise the first one is a UserError. A class of
    which none is left is left out too, unless the classes are `fixed`.
    """
    partial = entry.with_name(f"{entry.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)  # of a run that was killed
    try:
        partial.mkdir()
        pixels = _allocate(partial / "pixels.bin", (len(pictures), 3, size, size))
        bad = _decode_all(pictures, pixels, resize, skip, workers, on_progress)
        kept = [row for row in range(len(pictures)) if row not in bad]
        if not kept:
            raise unreadable(bad[0])
        _close_gaps(pixels, kept)
        pixels.flush()
        os.truncate(partial / "pixels.bin", len(kept) * 3 * size * size)
        left = {pictures[row].label for row in kept}
        if none := [label for label in classes if label not in left]:
            if fixed:
                example = next(bad[row] for row in sorted(bad) if pictures[row].label == none[0])
                raise UserError(
                    f"no picture of the class {none[0]!r} can be read, such as {example}: download it again"
                )
            classes = [label for label in classes if label in left]
        number = {label: i for i, label in enumerate(classes)}
        np.save(partial / "labels.npy", np.array([number[pictures[row].label] for row in kept], np.int64))
        index = {
            "shape": [len(kept), 3, size, size],
            "class_names": classes,
            "paths": [pictures[row].name for row in kept],
            "skipped": [bad[row] for row in sorted(bad)],
        }
        (partial / "index.json").write_text(json.dumps(index))
        sums = [f"{sha256_of(partial / file)}  {file}\n" for file in FILES]
        (partial / "SHA256SUMS").write_text("".join(sums))
        for file in partial.iterdir():
            _sync(file)
        shutil.rmtree(entry, ignore_errors=True)  # a broken one
        partial.rename(entry)
    except OSError as error:
        raise UserError(
            f"the cache {entry.parent} cannot be written ({error}): free some space, or choose another with --cache DIR"
        ) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _decode_all(
    pictures: list[Picture],
    pixels: np.ndarray,
    resize: Resize | None,
    skip: bool,
    workers: int | None,
    on_progress: Progress,
) -> dict[int, str]:
    """Decode every picture into its row of pixels; returns the rows that could not be read, with the reason.

    In threads, since pillow releases Python's lock while it decodes and resizes: no picture is sent between processes,
    and a script that calls `load` needs no `__main__` guard.
    """
    stop = Event()

    def work(rows: range) -> dict[int, str]:
        bad = {}
        for row in rows:
            if stop.is_set():
                break
            try:
                pixels[row] = decode(pictures[row], pixels.shape[-1], resize)
            except Exception as error:  # a broken file may fail in any way
                bad[row] = f"{pictures[row].name} ({reason(error, pictures[row].name)})"
        return bad

    chunks = [range(start, min(start + CHUNK, len(pictures))) for start in range(0, len(pictures), CHUNK)]
    bad: dict[int, str] = {}
    done = 0
    pool = thread_pool(workers)
    try:
        with quiet_pillow():
            jobs = {pool.submit(work, rows): len(rows) for rows in chunks}
            for job in as_completed(jobs):
                bad |= job.result()
                done += jobs[job]
                on_progress(done, len(pictures))
                if bad and not skip:
                    raise unreadable(bad[min(bad)])
    finally:
        stop.set()
        pool.shutdown(cancel_futures=True)
    return bad


def unreadable(which: str) -> UserError:
    """The error for a picture that cannot be read, `which` being its name and the reason."""
    return UserError(f"a picture cannot be read, {which}: replace it, remove it, or use --skip-corrupt")


def _allocate(path: Path, shape: tuple[int, ...]) -> np.memmap:
    """Reserve the whole file: a full disk is an error here, where later it would be a crash."""
    length = int(np.prod(shape))
    with path.open("wb") as file:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, length)
        else:
            file.truncate(length)
    return np.memmap(path, np.uint8, "r+", shape=shape)


def _close_gaps(pixels: np.ndarray, kept: list[int]) -> None:
    """Move the kept rows to the front, over skipped ones. Rows only move forward, so none is lost."""
    for start in range(0, len(kept) if len(kept) < len(pixels) else 0, CHUNK):
        rows = kept[start : start + CHUNK]
        pixels[start : start + len(rows)] = pixels[rows]


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
