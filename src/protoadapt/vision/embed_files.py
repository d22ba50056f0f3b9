"""Files → contents and features: threads read and decode the next pictures while the network computes."""

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import nn

from protoadapt.core.threads import ahead
from protoadapt.vision.embed import check_rows, embed
from protoadapt.vision.feature_store import Store, stamp
from protoadapt.vision.pictures import read

CPU_BATCH, GPU_BATCH = 8, 128
"""On a CPU, small batches fit into the caches and into memory that is used again: a fifth faster than 64."""
AHEAD = 64
"""Pictures that wait decoded, at most; on a GPU three batches."""
SAVE_ROWS, SAVE_SECONDS = 1024, 15.0
"""A piece is written after so many new rows, or so long: that much an interruption can cost."""


class Read(NamedTuple):
    """What a thread made of a file: its content and, where the store does not know that, pixels; or what is wrong."""

    stamp: bytes | None = None
    content: bytes | None = None
    pixels: np.ndarray | None = None
    wrong: str | None = None


def contents_of(
    files: Sequence[str],
    network: nn.Module,
    about: Mapping[str, Any],
    store: Store,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
    views: int = 1,
) -> tuple[list[bytes | None], dict[int, str]]:
    """The sha256 of each file, all their features in the store; and what is wrong with those that have none (None)."""
    contents = [_remembered(file, store) for file in files]
    todo = [place for place, content in enumerate(contents) if content is None]
    wrong: dict[int, str] = {}
    on_progress(len(files) - len(todo), len(files))

    def work(place: int) -> Read:
        return _read(files[place], about["size"], store)

    size = batch_size(network) if views == 1 else 1  # further views depend on the place in a batch
    batch: dict[bytes, np.ndarray] = {}
    saved = time.monotonic()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # refused a moment later, and listed
            for done, (place, read) in enumerate(zip(todo, ahead(work, todo, max(AHEAD, 3 * size)))):
                if done % size == 0:
                    on_progress(len(files) - len(todo) + done, len(files))
                if read.content is None:
                    wrong[place] = read.wrong or "it cannot be read"
                    continue
                contents[place] = read.content
                if read.stamp is not None:
                    store.note(read.stamp, read.content)
                if read.pixels is not None and read.content not in store:
                    batch[read.content] = read.pixels
                if len(batch) == size:
                    _compute(batch, network, about, store, views)
                if store.unsaved >= SAVE_ROWS or time.monotonic() - saved > SAVE_SECONDS:
                    store.flush()
                    saved = time.monotonic()
            _compute(batch, network, about, store, views)
    finally:
        store.flush()
    on_progress(len(files), len(files))
    return contents, wrong


def batch_size(network: nn.Module) -> int:
    device = next(network.parameters(), torch.empty(0)).device
    return CPU_BATCH if device.type == "cpu" else GPU_BATCH


def _remembered(file: str, store: Store) -> bytes | None:
    """The content of a file that has not changed since its features were stored."""
    try:
        content = store.meant.get(stamp(file))
    except OSError:
        return None
    return content if content is not None and content in store else None


def _read(file: str, size: int, store: Store) -> Read:
    try:
        before = stamp(file)
        data = read.read(file)
        content = read.digest(data)
        return Read(before, content, None if content in store else read.pixels(data, size))
    except Exception as error:  # a broken file may fail in any way
        return Read(wrong=read.reason(error))


def _compute(
    batch: dict[bytes, np.ndarray], network: nn.Module, about: Mapping[str, Any], store: Store, views: int
) -> None:
    if not batch:
        return
    rows = check_rows(embed(network, about, np.stack(list(batch.values())), views, batch=len(batch)))
    store.add(list(batch), rows.numpy())
    batch.clear()
