"""All rows of a feature folder, read again and again: one thread reads ahead while the others compute.

Nothing is held but the few shards on the way. Files are read, not mapped: mapped pages would count as this process's
memory, and grow to the size of the disk's.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from protoadapt.core.errors import UserError, count
from protoadapt.core.threads import ahead, cores
from protoadapt.vision.shards import shard_files
from protoadapt.vision.shards.make import one_thread

B = TypeVar("B")


@dataclass(frozen=True)
class Rows:
    """The rows of some shards of a feature folder; `leave` are those to pass over (positions by shard number)."""

    headers: tuple[shard_files.Header, ...]
    leave: Mapping[int, np.ndarray] = field(default_factory=dict)
    tick: Callable[[int], None] = lambda rows: None  # told of every so many rows that were run through

    def each(self, function: Callable[[shard_files.Header, np.ndarray], B], everything: bool = False) -> Iterator[B]:
        """function(header, rows (n, D) float16) of each shard, in order; with `everything` none is passed over."""

        def read(header: shard_files.Header) -> tuple[shard_files.Header, np.ndarray]:
            rows, leave = shard_files.read_rows(header), self.leave.get(header.told["shard"])
            return header, rows if leave is None or everything else np.delete(rows, leave, 0)

        threads = torch.get_num_threads()
        with one_thread():  # a core a shard: threads that share one product wait for each other
            answers = ahead(lambda pair: function(*pair), ahead(read, self.headers, 2, 1), 2 * threads, threads)
            for header, answer in zip(self.headers, answers):
                yield answer
                self.tick(header.shape[0])


def open_features(folder: Path, part: tuple[int, int] = (0, 1)) -> tuple[Rows, dict[str, Any]]:
    """Every i-th of n shards, each looked at but not read; and what they are shards of."""
    about = shard_files.read_about(folder)
    headers, missing = [], []
    for number in range(part[0], about["shards"], part[1]):
        path = shard_files.shard_path(folder, number)
        try:
            headers.append(shard_files.read_header(path))
        except shard_files.Damaged as error:
            missing.append(str(error) if path.exists() else path.name)
    if missing:
        are = "is" if len(missing) == 1 else "are"
        raise UserError(
            f"{len(missing):,} of {count(about['shards'], 'shard')} in {str(folder)!r} {are} missing or damaged, "
            f"such as {missing[0]}: run protoadapt extract --manifest again, it makes those"
        )
    for number, header in zip(range(part[0], about["shards"], part[1]), headers):
        same = all(header.told.get(key) == about[key] for key in ("weights", "views", "manifest"))
        if not same or header.shape[1] != headers[0].shape[1]:
            raise UserError(f"{str(header.path)!r} is of another model or manifest than its folder: remove it")
        if header.told["shard"] != number:
            raise UserError(f"{str(header.path)!r} is a copy of shard {header.told['shard']}: remove it, extract again")
    listed = sum(header.shape[0] + len(header.told["broken"]) for header in headers)
    surplus = shard_files.shard_path(folder, about["shards"]).exists()
    if surplus or (part == (0, 1) and listed != about["pictures"]):
        raise UserError(
            f"{shard_files.ABOUT} in {str(folder)!r} tells of {about['pictures']:,} pictures in {about['shards']:,} "
            f"shards, and its files of others: remove {shard_files.ABOUT} and run protoadapt extract --manifest again"
        )
    return Rows(tuple(headers)), about


def check_all(rows: Rows) -> None:
    """Every byte of every shard against its checksum."""
    for damaged in ahead(_damage_of, rows.headers, 2 * cores()):
        if damaged:
            raise UserError(f"a shard is damaged, {damaged}: run protoadapt extract --manifest again, it is made anew")


def _damage_of(header: shard_files.Header) -> str:
    try:
        shard_files.check(header.path)
        return ""
    except shard_files.Damaged as error:
        return str(error)


class Place(NamedTuple):
    shard: int
    position: int
    row: np.ndarray  # (D)


def find_names(rows: Rows, wanted: Iterable[str]) -> dict[str, Place]:
    """Which of these pictures have rows, and where."""
    wanted = set(wanted)
    found: dict[str, Place] = {}
    for header in rows.headers:
        places = [(name, at) for at, name in enumerate(shard_files.read_names(header)[0]) if name in wanted]
        table = shard_files.read_rows(header) if places else None
        for name, at in places:
            if name in found:
                raise UserError(
                    f"several rows are called {name!r}, and nobody can tell which is meant: list each picture once and "
                    f"make manifest and features again"
                )
            found[name] = Place(header.told["shard"], at, table[at].copy())  # type: ignore[index]
    return found


def find_contents(rows: Rows, wanted: Iterable[bytes]) -> list[tuple[bytes, str, tuple[int, int]]]:
    """(sha256, name, (shard, position)) of the rows whose pictures have these bytes, where the shards know them."""
    wanted, found = set(wanted), []
    for header in rows.headers if wanted else ():
        places = [(content, at) for at, content in enumerate(shard_files.read_contents(header)) if content in wanted]
        names = shard_files.read_names(header)[0] if places else []
        found += [(content, names[at], (header.told["shard"], at)) for content, at in places]
    return found


def summed(parts: Iterable[tuple[Tensor, ...]], zeros: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """The sum of each, over all shards, and over all processes where there are several (torchrun)."""
    totals = tuple(zero.clone() for zero in zeros)
    for part in parts:
        for total, more in zip(totals, part):
            total += more
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        flat = torch.cat([total.flatten() for total in totals])
        torch.distributed.all_reduce(flat)
        pieces = flat.split([total.numel() for total in totals])
        totals = tuple(piece.view_as(total) for piece, total in zip(pieces, totals))
    return totals
