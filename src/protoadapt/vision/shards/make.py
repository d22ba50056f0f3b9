"""One shard: its pictures through the network, in fixed batches, into its file. The same bytes whoever makes it.

Torch's last bits depend on how many pictures pass together and on how many threads share a convolution. So every batch
has the same shape (black pictures fill it up), and on the CPU a network computes with one thread: more cores are more
workers, each with shards of its own. Features of a CPU and of a GPU differ in their last bits all the same.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from protoadapt.vision.embed import embed, to_half
from protoadapt.vision.pictures.walk import Entry
from protoadapt.vision.shards import shard_files
from protoadapt.vision.shards.batch_decode import BATCH, Decoded, decoded
from protoadapt.vision.shards.manifest import Manifest


@dataclass(frozen=True)
class Job:
    """What is extracted, and where to. Small: it travels to every worker."""

    model: str | Path
    manifest: Manifest
    out: Path
    views: int
    size: int  # of the network's input
    device: str

    def batches(self, number: int) -> int:
        return -(-self.manifest.shards[number].pictures // BATCH)

    def decode(self, number: int, batch: int) -> Decoded:
        entries = self.manifest.read(number)[batch * BATCH : (batch + 1) * BATCH]
        return decoded(self.manifest.root, entries, self.size)


class Made(NamedTuple):
    """A shard that is done."""

    number: int
    pictures: int
    broken: int


def decode_shard(job: Job, number: int) -> Iterator[Decoded]:
    entries = job.manifest.read(number)
    for start in range(0, len(entries), BATCH):
        yield decoded(job.manifest.root, entries[start : start + BATCH], job.size)


def make_shard(job: Job, number: int, batches: Iterable[Decoded], network: nn.Module, about: Mapping[str, Any]) -> Made:
    """Embed the decoded batches of a shard and write its file."""
    entries = job.manifest.read(number)
    parts: list[np.ndarray] = []
    reasons: dict[int, str] = {}
    for start, (pixels, broken) in zip(range(0, len(entries), BATCH), batches, strict=True):
        parts.append(to_half(embed(network, about, pixels, job.views, batch=BATCH)).numpy()[: len(entries) - start])
        reasons |= {start + row: reason for row, reason in broken}
    rows = np.array([row for row in range(len(entries)) if row not in reasons], np.int32)
    told = {
        "shard": number,
        "of": job.manifest.shards[number].sha256,
        **shard_files.identity(about, job.manifest, job.views),
    }
    told["broken"] = [{"row": row, "name": entries[row].name, "reason": why} for row, why in sorted(reasons.items())]
    names = [entries[row].name for row in rows]
    features = np.concatenate(parts)[rows]
    shard_files.write_shard(
        shard_files.shard_path(job.out, number), features, rows, names, told, _contents(entries, rows)
    )
    return Made(number, len(entries), len(reasons))


def _contents(entries: Sequence[Entry], rows: np.ndarray) -> np.ndarray | None:
    """(n, 32) uint8: the sha256 of each picture, zeros where the manifest has none; None where it has none at all."""
    if not any(entry.sha256 for entry in entries):
        return None
    text = "".join(entries[row].sha256 or "0" * 64 for row in rows)
    return np.frombuffer(bytes.fromhex(text), np.uint8).reshape(-1, 32)


@contextmanager
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
