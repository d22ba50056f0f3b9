"""The rows of a feature folder, read from disk in every pass: one thread reads ahead while the others compute.

Only a few shards are in memory at a time. Files are read, not mapped: mapped pages would count as this process's memory
and grow to the size of the folder.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch

from protoadapt.core.errors import UserError, count
from protoadapt.core.threads import ahead, cores
from protoadapt.vision.shards import shard_files
from protoadapt.vision.shards.make import one_thread

B = TypeVar("B")


@dataclass(frozen=True)
class Rows:
    """The rows of some shards of a feature folder; those in `leave` (positions by shard number) are left out."""

    headers: tuple[shard_files.Header, ...]
    leave: Mapping[int, np.ndarray] = field(default_factory=dict)
    tick: Callable[[int], None] = lambda rows: None  # called with the rows of each shard that was read

    def each(self, function: Callable[[shard_files.Header, np.ndarray], B], everything: bool = False) -> Iterator[B]:
        """Yield function(header, rows (n, D) float16) of each shard, in order; with `everything` no row is left out."""

        def read(header: shard_files.Header) -> tuple[shard_files.Header, np.ndarray]:
            rows, leave = shard_files.read_rows(header), self.leave.get(header.metadata["shard"])
            return header, rows if leave is None or everything else np.delete(rows, leave, 0)

        threads = torch.get_num_threads()
        with one_thread():  # one core per shard: threads that share one product wait for each other
            answers = ahead(lambda pair: function(*pair), ahead(read, self.headers, 2, 1), 2 * threads, threads)
            for header, answer in zip(self.headers, answers):
                yield answer
                self.tick(header.shape[0])


def open_features(folder: Path, part: tuple[int, int] = (0, 1)) -> tuple[Rows, dict[str, Any]]:
    """Open every n-th shard from i (part = i, n) of a feature folder; returns its rows, unread, and its about.json."""
    record = shard_files.read_record(folder)
    headers, missing = [], []
    for number in range(part[0], record["shards"], part[1]):
        path = shard_files.shard_path(folder, number)
        try:
            headers.append(shard_files.read_header(path))
        except shard_files.Damaged as error:
            missing.append(str(error) if path.exists() else path.name)
    if missing:
        are = "is" if len(missing) == 1 else "are"
        raise UserError(
            f"{len(missing):,} of {count(record['shards'], 'shard')} in {str(folder)!r} {are} missing or damaged, "
            f"such as {missing[0]}: run protoadapt extract --manifest again to make them"
        )
    for number, header in zip(range(part[0], record["shards"], part[1]), headers):
        same = all(header.metadata.get(key) == record.get(key) for key in ("weights", "views", "manifest", "engine"))
        if not same or header.shape[1] != headers[0].shape[1]:
            raise UserError(f"{str(header.path)!r} belongs to another model or manifest than its folder: remove it")
        if header.metadata["shard"] != number:
            raise UserError(
                f"{str(header.path)!r} is a copy of shard {header.metadata['shard']}: remove it, and run protoadapt "
                f"extract again"
            )
    listed = sum(header.shape[0] + len(header.metadata["broken"]) for header in headers)
    surplus = shard_files.shard_path(folder, record["shards"]).exists()
    if surplus or (part == (0, 1) and listed != record["pictures"]):
        raise UserError(
            f"{shard_files.ABOUT} in {str(folder)!r} lists {record['pictures']:,} pictures in {record['shards']:,} "
            f"shards, which does not fit its files: remove {shard_files.ABOUT}, and run protoadapt extract --manifest "
            f"again"
        )
    return Rows(tuple(headers)), record


def check_all(rows: Rows) -> None:
    """Compare every byte of every shard with its checksum. Raises UserError."""

    def damage(header: shard_files.Header) -> str:
        try:
            shard_files.check(header.path)
            return ""
        except shard_files.Damaged as error:
            return str(error)

    for damaged in filter(None, ahead(damage, rows.headers, 2 * cores())):
        raise UserError(f"a shard is damaged, {damaged}: run protoadapt extract --manifest again to make it")


class Place(NamedTuple):
    """Where the row of a picture is, and the row."""

    shard: int
    position: int
    row: np.ndarray  # (D)


def find_names(rows: Rows, wanted: Iterable[str]) -> dict[str, Place]:
    """The places of those of these pictures that have rows, by name."""
    wanted = set(wanted)
    places: dict[str, Place] = {}
    for header in rows.headers:
        here = [(name, at) for at, name in enumerate(shard_files.read_names(header)[0]) if name in wanted]
        table = shard_files.read_rows(header) if here else None
        for name, at in here:
            if name in places:
                raise UserError(
                    f"several rows have the name {name!r}, so it is ambiguous: list each picture once, and make the "
                    f"manifest and the features again"
                )
            places[name] = Place(header.metadata["shard"], at, table[at].copy())  # type: ignore[index]
    return places


def find_contents(rows: Rows, wanted: Iterable[bytes]) -> list[tuple[bytes, str, tuple[int, int]]]:
    """(sha256, name, (shard, position)) of the rows whose pictures have these contents, where the shards store them."""
    wanted, copies = set(wanted), []
    for header in rows.headers if wanted else ():
        places = [(content, at) for at, content in enumerate(shard_files.read_contents(header)) if content in wanted]
        names = shard_files.read_names(header)[0] if places else []
        copies += [(content, names[at], (header.metadata["shard"], at)) for content, at in places]
    return copies
