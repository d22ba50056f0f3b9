"""Embedding picture files: threads read and decode while the network computes, and a store keeps the features.

A network of the cache (`networks.load_for_files`) needs no torch here; any other is embedded by `embed_batches`.
"""

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from protoadapt.core.errors import UserError
from protoadapt.core.prototype_model import Array, as_numpy
from protoadapt.core.threads import ahead
from protoadapt.vision.feature_store import Store, stamp
from protoadapt.vision.networks.onnx_engine import OnnxEngine
from protoadapt.vision.pictures.decode import decode_bytes
from protoadapt.vision.pictures.formats import quiet_pillow, reason
from protoadapt.vision.pictures.read import read_file

if TYPE_CHECKING:
    from torch import nn

CPU_BATCH = 8
"""Files per batch and thread. Small batches fit into the caches and reuse memory: a fifth faster than 64."""
AHEAD = 64
"""Decoded pictures that wait for the network, at most; on a GPU three batches."""
SAVE_ROWS, SAVE_SECONDS = 1024, 15.0
"""The feature store is written after so many new rows, or so long: an interruption loses no more than that."""


def embed_files(
    files: Sequence[str],
    network: "OnnxEngine | nn.Module",
    metadata: Mapping[str, Any],
    store: Store,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
    views: int = 1,
) -> tuple[list[bytes | None], dict[int, str]]:
    """Embed picture files into a feature store; threads read and decode while the network computes.

    A content that the store holds is not computed again, and a file that has not changed is not even read. Returns the
    sha256 of each file (None where it cannot be read), and the reasons by the position of the file.
    """
    contents = [_remembered(file, store) for file in files]
    errors: dict[int, str] = {}
    size, rows_of = _embedder(network, metadata, views)
    batches = _decoded(files, contents, errors, metadata, store, size, on_progress)
    saved = time.monotonic()
    try:
        with quiet_pillow():
            for keys, rows in rows_of(batches):
                store.add(keys, as_numpy(check_rows(rows)))
                if store.unsaved >= SAVE_ROWS or time.monotonic() - saved > SAVE_SECONDS:
                    store.flush()
                    saved = time.monotonic()
    finally:
        store.flush()
    on_progress(len(files), len(files))
    return contents, errors


Batches = Iterator[tuple[list[bytes], np.ndarray]]


def _embedder(
    network: Any, metadata: Mapping[str, Any], views: int
) -> tuple[int, Callable[[Batches], Iterable[tuple[list[bytes], Array]]]]:
    """How many pictures a network takes at a time, and what embeds such batches."""
    if isinstance(network, OnnxEngine) and views == 1:
        return cpu_batch(network.threads), lambda batches: ((keys, network.features(x)) for keys, x in batches)
    from protoadapt.vision.embed import batch_size, embed_batches

    return batch_size(network), lambda batches: embed_batches(network, metadata, batches, views=views)


def cpu_batch(threads: int) -> int:
    """Files per batch on a CPU: threads that share a batch seldom wait for its last picture."""
    return CPU_BATCH * max(1, threads)


def check_rows(rows: Array, pooling: float = 1.0) -> Array:
    """Return the same rows, or raise UserError where they are not finite."""
    values = as_numpy(rows)
    if np.isfinite(values).all():
        return rows
    if pooling != 1 and not np.isnan(values).any():
        raise UserError(f"the features overflow when they are raised to the power {pooling:g}: lower pooling")
    raise UserError("the network gives NaN or infinite features: its weights are damaged, download it again")


class _File(NamedTuple):
    """What a thread made of a file: its content and, where the store lacks it, pixels; or an error."""

    stamp: bytes | None = None
    content: bytes | None = None
    pixels: np.ndarray | None = None
    error: str = ""


def _decoded(
    files: Sequence[str],
    contents: list[bytes | None],
    errors: dict[int, str],
    metadata: Mapping[str, Any],
    store: Store,
    size: int,
    on_progress: Callable[[int, int], None],
) -> Iterator[tuple[list[bytes], np.ndarray]]:
    """Batches of contents that the store lacks, with their pixels; fills in `contents` and `errors` on the way."""

    def read(place: int) -> _File:
        try:
            before = stamp(files[place])
            content = read_file(files[place])
            digest = hashlib.sha256(content).digest()
            pixels = None if digest in store else decode_bytes(content, metadata["size"], metadata.get("resize"))
            return _File(before, digest, pixels)
        except Exception as error:  # a broken file may fail in any way
            return _File(error=reason(error, files[place]))

    todo = [place for place, content in enumerate(contents) if content is None]
    batch: dict[bytes, np.ndarray] = {}
    for done, (place, file) in enumerate(zip(todo, ahead(read, todo, max(AHEAD, 3 * size)))):
        if done % size == 0:
            on_progress(len(files) - len(todo) + done, len(files))
        contents[place] = file.content
        if file.content is None:
            errors[place] = file.error
            continue
        if file.stamp is not None:
            store.note(file.stamp, file.content)
        if file.pixels is not None and file.content not in store:
            batch[file.content] = file.pixels
        if len(batch) == size:
            yield list(batch), np.stack(list(batch.values()))
            batch = {}
    if batch:
        yield list(batch), np.stack(list(batch.values()))


def _remembered(file: str, store: Store) -> bytes | None:
    """The content of a file that has not changed since its features were stored."""
    try:
        content = store.content_of.get(stamp(file))
    except OSError:
        return None
    return content if content is not None and content in store else None
