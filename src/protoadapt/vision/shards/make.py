"""One shard: its pictures are embedded in fixed batches and written to its file. The same bytes whoever makes it.

Torch's last bits depend on how many pictures pass together and on how many threads share a convolution. So every batch
has the same shape (black pictures fill it up), and on the CPU a network computes with one thread: more cores are more
workers, each with shards of its own. Features of a CPU and of a GPU differ in their last bits all the same. The reasons
why pictures cannot be read are part of the file, so they hold no addresses and no paths of a machine.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from protoadapt.vision.embed import embed_batches, to_half
from protoadapt.vision.pictures.decode import Resize, decode_bytes
from protoadapt.vision.pictures.formats import UnreadablePicture, quiet_pillow, reason
from protoadapt.vision.pictures.read import read_entry
from protoadapt.vision.pictures.walk import Entry
from protoadapt.vision.shards import shard_files
from protoadapt.vision.shards.manifest import Manifest

BATCH = 64
"""Pictures that pass the network together. The last bits of a row depend on it, so it is fixed, and short batches are
filled up; it is what the network of one worker process can hold beside others."""


class Decoded(NamedTuple):
    """A batch of pixels (BATCH, 3, size, size) uint8, black where there is no picture, and why (by position)."""

    pixels: np.ndarray | torch.Tensor
    errors: dict[int, str]


@dataclass(frozen=True)
class Job:
    """What is extracted, and where to. Small: it is sent to every worker."""

    model: str | Path
    manifest: Manifest
    out: Path
    views: int
    device: str
    size: int  # of the network's input
    resize: Resize | None = None
    engine: str | None = None  # that every worker must use, or the shards of a folder would differ

    def batches(self, number: int) -> int:
        """How many batches a shard has."""
        return -(-self.manifest.shards[number].pictures // BATCH)

    def decode(self, number: int, batch: int, into: np.ndarray | None = None) -> Decoded:
        """One batch of a shard."""
        entries = self.manifest.read(number, batch * BATCH, (batch + 1) * BATCH)
        return decode_batch(self.manifest.root, entries, self.size, self.resize, into)


class Made(NamedTuple):
    """A finished shard."""

    number: int
    pictures: int
    broken: int


def decode_batch(
    root: Path, entries: Sequence[Entry], size: int, resize: Resize | None = None, into: np.ndarray | None = None
) -> Decoded:
    """Read and decode at most BATCH pictures, into an array (BATCH, 3, size, size) uint8 where one is given."""
    pixels = np.empty((BATCH, 3, size, size), np.uint8) if into is None else into
    pixels[:] = 0
    errors = {}
    with quiet_pillow():
        for row, entry in enumerate(entries):
            try:
                content = read_entry(root, entry)
            except UnreadablePicture as error:
                errors[row] = reason(error, entry.name)
                continue
            try:
                pixels[row] = decode_bytes(content, size, resize)
            except Exception as error:  # a broken file may fail in any way
                errors[row] = reason(error, entry.name)
    return Decoded(pixels, errors)


def decode_entries(root: Path, entries: Sequence[Entry], size: int, resize: Resize | None = None) -> Iterator[Decoded]:
    """Batch after batch of any number of pictures."""
    for start in range(0, len(entries), BATCH):
        yield decode_batch(root, entries[start : start + BATCH], size, resize)


def decode_shard(job: Job, number: int) -> Iterator[Decoded]:
    """All batches of a shard."""
    return decode_entries(job.manifest.root, job.manifest.read(number), job.size, job.resize)


Embedded = Iterator[tuple[dict[int, str], torch.Tensor]]
"""The errors of each batch, and its features."""


def embedded(batches: Iterable[Decoded], network: nn.Module, metadata: Mapping[str, Any], views: int) -> Embedded:
    """Embed decoded batches exactly as the rows of shards are: the same batches and views."""
    return embed_batches(network, metadata, ((batch.errors, batch.pixels) for batch in batches), views=views)


def rows_of(batches: Embedded, n: int) -> tuple[np.ndarray, dict[int, str]]:
    """The first n rows of embedded batches, rounded as the rows of shards are.

    Returns features (n, D) float16, those of unreadable pictures without meaning; and the reasons, by row.
    """
    parts: list[np.ndarray] = []
    errors: dict[int, str] = {}
    for wrong, rows in batches:
        errors |= {BATCH * len(parts) + row: why for row, why in wrong.items()}
        parts.append(to_half(rows).numpy())
    return np.concatenate(parts)[:n], errors


def make_shard(
    job: Job, number: int, batches: Iterable[Decoded], network: nn.Module, metadata: Mapping[str, Any]
) -> Made:
    """Embed the decoded batches of a shard and write its file."""
    features = rows_of(embedded(batches, network, metadata, job.views), job.manifest.shards[number].pictures)
    return write_made(job, number, *features, metadata)


def write_made(
    job: Job, number: int, features: np.ndarray, errors: Mapping[int, str], metadata: Mapping[str, Any]
) -> Made:
    """Write the file of a shard from what `rows_of` returns."""
    entries = job.manifest.read(number)
    rows = np.array([row for row in range(len(entries)) if row not in errors], np.int32)
    record = {
        "shard": number,
        "of": job.manifest.shards[number].sha256,
        **shard_files.identity(metadata, job.manifest, job.views),
        "broken": [{"row": row, "name": entries[row].name, "reason": why} for row, why in sorted(errors.items())],
    }
    names = [entries[row].name for row in rows]
    path = shard_files.shard_path(job.out, number)
    shard_files.write_shard(path, features[rows], rows, names, record, _contents(entries, rows))
    return Made(number, len(entries), len(errors))


def _contents(entries: Sequence[Entry], rows: np.ndarray) -> np.ndarray | None:
    """(n, 32) uint8: the sha256 of each picture, zeros where the manifest has none; None where it has none at all."""
    if not any(entry.sha256 for entry in entries):
        return None
    text = "".join(entries[row].sha256 or "0" * 64 for row in rows)
    return np.frombuffer(bytes.fromhex(text), np.uint8).reshape(-1, 32)


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch compute with one thread, and with as many as before afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
