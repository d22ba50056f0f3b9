"""One part of a table of features, from one shard of a manifest: the same bytes whoever makes it.

Torch's last bits depend on how many pictures pass together and on how many threads share a convolution. So every batch
has the same shape (black pictures fill it up), and on the CPU a network computes with one thread: more cores are more
workers, each with shards of its own. Features of a CPU and of a GPU differ in their last bits all the same. The reasons
why pictures cannot be read are part of the file, so they hold no addresses and no paths of a machine.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from protoadapt.core.errors import UserError
from protoadapt.core.parts import write_part
from protoadapt.core.threads import ahead
from protoadapt.vision import networks
from protoadapt.vision.embed import embed_batches, to_half
from protoadapt.vision.pictures.decode import decode_bytes
from protoadapt.vision.pictures.formats import quiet_pillow, reason
from protoadapt.vision.pictures.read import read_entry
from protoadapt.vision.pictures.walk import Entry
from protoadapt.vision.shards.manifest import Manifest

BATCH = 64
"""Pictures that pass the network together. The last bits of a row depend on it, so it is fixed, and short batches are
filled up; it is what the network of one worker process can hold beside others."""


class Decoded(NamedTuple):
    """A batch of pixels (BATCH, 3, size, size) uint8, black where there is no picture, and why (by position)."""

    errors: dict[int, str]
    pixels: np.ndarray | torch.Tensor


Embedded = Iterable[tuple[dict[int, str], torch.Tensor]]
"""The errors of each batch, and its features."""


@dataclass(frozen=True)
class Job:
    """What is extracted, and where to. Small: it is sent to every worker."""

    model: str | Path
    metadata: Mapping[
        str, Any
    ]  # of the network; every worker must use its engine, or the parts of a table would differ
    manifest: Manifest
    out: Path
    views: int = 1
    device: str = "cpu"

    @property
    def made_so(self) -> dict[str, Any]:
        """How the rows are made (`parts.MADE`). Engines differ in their last bits, so it names the engine."""
        network = {key: self.metadata[key] for key in ("weights", "engine")}
        return {**network, "views": self.views, "manifest": self.manifest.sha256}

    def network(self) -> nn.Module:
        """The network on the device of the job."""
        return networks.load(self.model, self.device, self.metadata["engine"])[0]

    def batches(self, number: int) -> int:
        """How many batches a shard has."""
        return -(-self.manifest.shards[number].pictures // BATCH)

    def decode(self, number: int, batch: int, into: np.ndarray | None = None) -> Decoded:
        """One batch of a shard."""
        entries = self.manifest.read(number, batch * BATCH, (batch + 1) * BATCH)
        return decode_batch(self.manifest.root, entries, self.metadata, into)

    def embed(self, network: nn.Module, number: int, threads: int = 1) -> Embedded:
        """The embedded batches of a shard, decoded by threads."""
        batches = ahead(partial(self.decode, number), range(self.batches(number)), 2 * threads, threads)
        return embed_batches(network, self.metadata, batches, views=self.views)

    def write(self, number: int, embedded: Embedded) -> int:
        """Writes the part of a shard from its embedded batches. Whoever makes parts calls this; returns the number."""
        entries = self.manifest.read(number)
        features, errors = rows_of(embedded, len(entries))
        good = [row for row in range(len(entries)) if row not in errors]
        lists: dict[str, list[Any]] = {"names": [entries[row].name for row in good], "numbers": good}
        if any(entry.sha256 for entry in entries):
            lists["contents"] = [entries[row].sha256 for row in good]
        broken = [{"row": row, "name": entries[row].name, "reason": why} for row, why in sorted(errors.items())]
        record = {"of": self.manifest.shards[number].sha256, **self.made_so, "broken": broken}
        write_part(self.out, number, features[good], lists, record)
        return number


def decode_batch(
    root: Path, entries: Sequence[Entry], metadata: Mapping[str, Any], into: np.ndarray | None = None
) -> Decoded:
    """Reads and decodes at most BATCH pictures for a network, into an array (BATCH, 3, size, size) if one is given."""
    size, errors = metadata["size"], {}
    pixels = np.empty((BATCH, 3, size, size), np.uint8) if into is None else into
    pixels[:] = 0
    with quiet_pillow():
        for row, entry in enumerate(entries):
            try:
                pixels[row] = decode_bytes(read_entry(root, entry), size, metadata.get("resize"))
            except UserError:
                raise
            except Exception as error:  # a broken file may fail in any way
                errors[row] = reason(error, entry.name)
    return Decoded(errors, pixels)


def rows_of(batches: Embedded, n: int) -> tuple[np.ndarray, dict[int, str]]:
    """The first n rows of embedded batches.

    Returns features (n, D) float16, those of unreadable pictures without meaning; and the reasons, by row.
    """
    parts: list[np.ndarray] = []
    errors: dict[int, str] = {}
    for wrong, rows in batches:
        errors |= {BATCH * len(parts) + row: why for row, why in wrong.items()}
        parts.append(to_half(rows).numpy())
    return np.concatenate(parts)[:n], errors


def embed_entries(
    entries: Sequence[Entry], network: nn.Module, metadata: Mapping[str, Any], views: int
) -> tuple[np.ndarray, dict[int, str]]:
    """Pictures with absolute paths, embedded exactly as the rows of parts are; returns as `rows_of`."""
    starts = range(0, len(entries), BATCH)
    batches = (decode_batch(Path(), entries[start : start + BATCH], metadata) for start in starts)
    return rows_of(embed_batches(network, metadata, batches, views=views), len(entries))
