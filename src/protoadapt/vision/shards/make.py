"""One part of a table of features, from one shard of a manifest: the same bytes whoever makes it.

Torch's last bits depend on how many pictures pass together and on how many threads share a convolution. So every batch
has the same shape (black pictures fill it up), and on the CPU one thread computes a batch: more cores are more threads,
each with batches of its own. Features of a CPU and of a GPU differ in their last bits all the same. The reasons why
pictures cannot be read are part of the file, so they hold no addresses and no paths of a machine.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader

from protoadapt.core.errors import UserError, first_line
from protoadapt.core.parts import write_part
from protoadapt.core.threads import ahead, cores, one_thread
from protoadapt.vision import networks
from protoadapt.vision.embed import embed_batches, to_half
from protoadapt.vision.pictures.decode import decode_bytes
from protoadapt.vision.pictures.formats import quiet_pillow, reason
from protoadapt.vision.pictures.read import read_entry
from protoadapt.vision.pictures.walk import Entry
from protoadapt.vision.shards.manifest import Manifest

BATCH = 64
"""Pictures that pass the network together. The last bits of a row depend on it, so it is fixed, and short batches are
filled up."""
Batch = tuple[dict[int, str], torch.Tensor]
"""Why pictures of a batch cannot be read, by position; and pixels (BATCH, 3, size, size) uint8, black where there is no
picture, or features (BATCH, D)."""


@dataclass(frozen=True)
class Job:
    """What is extracted, and where to."""

    model: str | Path
    metadata: Mapping[str, Any]  # of the network; all parts must be made by its engine, or they would differ
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

    def places(self, *numbers: int) -> list[tuple[int, int]]:
        """The batches of these shards in order: the number of a shard, and that of a batch in it."""
        pictures = [(number, self.manifest.shards[number].pictures) for number in numbers]
        return [(number, batch) for number, n in pictures for batch in range(-(-n // BATCH))]

    def decode(self, place: tuple[int, int]) -> Batch:
        """Reads and decodes a batch."""
        number, batch = place
        entries = self.manifest.read(number, batch * BATCH, (batch + 1) * BATCH)
        return decode_batch(self.manifest.root, entries, self.metadata)

    def embed(self, network: nn.Module, batches: Iterable[Batch]) -> Iterator[Batch]:
        """Embeds decoded batches."""
        return embed_batches(network, self.metadata, batches, views=self.views)

    def write(self, number: int, embedded: Iterable[Batch]) -> int:
        """Writes the part of a shard from its embedded batches. Whoever makes parts calls this; returns the number."""
        entries = self.manifest.read(number)
        features, errors = rows_of(embedded, len(entries))
        good = [row for row in range(len(entries)) if row not in errors]
        lists: dict[str, list[Any]] = {"names": [entries[row].name for row in good], "numbers": good}
        broken = [{"row": row, "name": entries[row].name, "reason": why} for row, why in sorted(errors.items())]
        record = {"of": self.manifest.shards[number].sha256, **self.made_so, "broken": broken}
        write_part(self.out, number, features[good], lists, record)
        return number


def make_locally(job: Job, numbers: Sequence[int], workers: int | None) -> Iterator[int]:
    """Yields the number of each of these shards when its part is written, in order; one worker per core by default.

    On a CPU each worker, a thread, decodes a batch and embeds it. For a GPU workers, processes, decode only, and it has
    one stream of batches through all shards: so it never waits.
    """
    workers = workers or cores()
    places = job.places(*numbers)

    def alone(place: tuple[int, int]) -> Batch:
        torch.set_num_threads(1)  # every thread has a number of its own
        return next(job.embed(network, [job.decode(place)]))

    with one_thread(), quiet_pillow():
        network = job.network()
        if job.device == "cpu":
            batches = ahead(alone, places, 2 * workers, workers)
        else:
            batches = job.embed(network, _by_processes(job, places, workers))
        of_shards = groupby(zip(places, batches), lambda pair: pair[0][0])
        shards = ((number, [batch for _, batch in pairs]) for number, pairs in of_shards)
        yield from ahead(lambda shard: job.write(*shard), shards, 4, threads=2)


def _decoded(job: Job, place: tuple[int, int]) -> Batch | Exception:
    try:
        return job.decode(place)
    except Exception as error:  # raised here, it would arrive as a traceback
        return error


def _by_processes(job: Job, places: Sequence[tuple[int, int]], workers: int) -> Iterator[Batch]:
    """Decodes batches in worker processes, and gives them in order, in memory that a GPU reads by itself."""
    options = {"collate_fn": partial(_decoded, job), "num_workers": workers, "pin_memory": torch.cuda.is_available()}
    loader: DataLoader[Any] = DataLoader(places, batch_size=None, **options)  # type: ignore[arg-type]
    try:
        for batch in loader:
            if isinstance(batch, Exception):
                raise batch
            yield batch
    except (RuntimeError, OSError) as error:
        raise UserError(
            f"a worker process was killed or did not start ({first_line(error)}): give it more memory or use fewer "
            f"--workers, and run the same command again; finished shards are kept"
        ) from error


def decode_batch(root: Path, entries: Sequence[Entry], metadata: Mapping[str, Any]) -> Batch:
    """Reads and decodes at most BATCH pictures for a network."""
    size = metadata["size"]
    errors = {}
    pixels = np.zeros((BATCH, 3, size, size), np.uint8)
    for row, entry in enumerate(entries):
        try:
            pixels[row] = decode_bytes(read_entry(root, entry), size, metadata.get("resize"))
        except UserError:
            raise
        except Exception as error:  # a broken file may fail in any way
            errors[row] = reason(error, entry.name)
    return errors, torch.from_numpy(pixels)


def rows_of(batches: Iterable[Batch], n: int) -> tuple[np.ndarray, dict[int, str]]:
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
    with quiet_pillow():
        batches = (decode_batch(Path(), entries[start : start + BATCH], metadata) for start in starts)
        return rows_of(embed_batches(network, metadata, batches, views=views), len(entries))
