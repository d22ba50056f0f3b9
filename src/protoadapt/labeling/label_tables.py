"""The labels of very many rows, written as they are found: Parquet, and labels.csv as well where they are few."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from protoadapt.core.errors import UserError, install
from protoadapt.core.files import written_whole
from protoadapt.labeling import outputs
from protoadapt.labeling.classifier import Answers
from protoadapt.labeling.names import UNKNOWN, to_text
from protoadapt.vision.shards import stream
from protoadapt.vision.shards.shard_files import Header, read_names

FEW = 100_000
"""Rows that a spreadsheet opens without complaint: up to so many there is a labels.csv too."""
GROUP = 1 << 17
"""Rows that are written together, at least."""
NO_CLASS = -2
"""Instead of a class: somebody says that the picture is of none."""


class Part(NamedTuple):
    """What is found of one shard, n rows."""

    shard: int
    names: list[str]
    numbers: np.ndarray  # in the manifest's shard
    answers: Answers
    given: np.ndarray  # (n): the class that was told, or NO_CLASS, or -1 where nothing was
    sampled: np.ndarray  # positions of the rows in the sample
    features: np.ndarray  # theirs

    def tell(self, positions: np.ndarray, classes: Sequence[str]) -> list[dict[str, Any]]:
        names = [to_text(self.names[position]) for position in positions]
        rows = outputs.picture_rows(names, self.answers.at(positions), self.given[positions], classes)
        for row, code in zip(rows, self.given[positions]):
            row |= {"no_class": True} if code == NO_CLASS else {}
        return rows


class Answered(NamedTuple):
    found: np.ndarray  # (W): rows a class, without those that were given
    unknown: np.ndarray  # (W): those of them that may be of no class
    sample: list[dict[str, Any]]
    sample_rows: np.ndarray  # (n, D) float16
    few: list[dict[str, Any]] | None  # all rows, where they are few


def part_name(rank: int, world: int) -> str:
    """The file of one of several processes."""
    return "labels.parquet" if world == 1 else f"labels-{rank:05d}-of-{world:05d}.parquet"


def parts_in(out: Path) -> list[Path]:
    """The files of runs with any number of processes."""
    found = sorted(out.glob("labels*.parquet"))
    return [path for path in found if re.fullmatch(r"labels(-\d{5,}-of-\d{5,})?\.parquet", path.name)]


def remove_others(out: Path, world: int) -> None:
    """The labels of an earlier run with another number of processes: whoever reads labels*.parquet would read both."""
    ours = {part_name(rank, world) for rank in range(world)}
    for path in parts_in(out):
        if path.name not in ours:
            path.unlink(missing_ok=True)  # another process may be faster


def check_pyarrow() -> None:
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError as error:
        raise UserError(
            f"labels of --features are written as Parquet, which needs pyarrow: {install('scale')}"
        ) from error


def write(
    path: Path,
    rows: stream.Rows,
    given: Mapping[tuple[int, int], int],
    classes: Sequence[str],
    answer: Callable[[Header, np.ndarray], Answers],
    every: int,
    check: Callable[[], None] = lambda: None,
) -> Answered:
    """A row a picture: file, label, confidence, runner_up, margin, unknown, support, and its shard and row there.

    given: the class of (shard, position) where it was told, or NO_CLASS. Every `every`-th row is in the sample, and all
    that were given. `check` may still refuse, right before the file is replaced.
    """
    counts = [header.shape[0] for header in rows.headers]
    starts = {h.metadata["shard"]: start for h, start in zip(rows.headers, accumulate(counts, initial=0))}
    told: dict[int, list[tuple[int, int]]] = {}
    for (shard, position), code in given.items():
        told.setdefault(shard, []).append((position, code))

    def part(header: Header, table: np.ndarray) -> Part:
        shard, (names, numbers) = header.metadata["shard"], read_names(header)
        codes = np.full(len(table), -1)
        for position, code in told.get(shard, ()):
            codes[position] = code
        chosen = ((np.arange(len(table)) + starts[shard]) % every == 0) & (codes < 0)
        sampled = np.flatnonzero(chosen)
        answers = answer(header, table)
        answers = answers._replace(unknown=answers.unknown | (codes == NO_CLASS))
        return Part(shard, names, numbers, answers, codes, sampled, table[sampled])

    (found, unknown), few = np.zeros((2, len(classes)), np.int64), sum(counts) <= FEW
    sample, everything, features = [], [], [np.empty((0, rows.headers[0].shape[1]), np.float16)]
    with _parquet(path, classes, check) as add:
        for one in rows.each(part, everything=True):
            best, asked = one.answers.best[:, 0], one.given < 0
            found += np.bincount(best[asked], minlength=len(found))
            unknown += np.bincount(best[asked & one.answers.unknown], minlength=len(found))
            sample += one.tell(np.union1d(one.sampled, np.flatnonzero(one.given != -1)).astype(int), classes)
            features.append(one.features)
            everything += one.tell(np.arange(len(one.names)), classes) if few else []
            add(one)
    return Answered(found, unknown, sample, np.concatenate(features), everything if few else None)


@contextmanager
def _parquet(path: Path, classes: Sequence[str], check: Callable[[], None]) -> Iterator[Callable[[Part], None]]:
    """A file that takes parts; whole or not at all."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    name = pa.dictionary(pa.int32(), pa.string())
    schema = pa.schema(
        [("file", pa.string()), ("label", name), ("confidence", pa.float32()), ("runner_up", name)]
        + [("margin", pa.float32()), ("unknown", pa.bool_()), ("support", pa.bool_())]
        + [("shard", pa.int32()), ("row", pa.int32())]
    )
    labels = pa.array([*classes, UNKNOWN], pa.string())
    waiting: list[Any] = []

    def named(codes: np.ndarray, none: np.ndarray | None = None) -> Any:
        return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32), mask=none), labels)

    def table(part: Part) -> Any:
        given, (best, probability, unknown) = part.given >= 0, part.answers
        told = np.where(part.given == NO_CLASS, len(classes), part.given)
        p, q = (np.where(given, sure, column) for sure, column in zip((1.0, 0.0), probability.T))
        columns = [pa.array(list(map(to_text, part.names)), pa.string())]
        columns += [named(np.where(told >= 0, told, best[:, 0])), pa.array(p.astype(np.float32))]
        columns += [named(best[:, 1], given), pa.array((p - q).astype(np.float32)), pa.array(unknown & ~given)]
        columns += [pa.array(given), pa.array(np.full(len(given), part.shard, np.int32)), pa.array(part.numbers)]
        return pa.table(columns, schema)

    with written_whole(path) as partial, pq.ParquetWriter(partial, schema, compression="zstd") as file:

        def flush() -> None:
            if waiting:
                file.write_table(pa.concat_tables(waiting), row_group_size=1 << 20)
                waiting.clear()

        def add(part: Part) -> None:
            waiting.append(table(part))
            if sum(map(len, waiting)) >= GROUP:
                flush()

        yield add
        flush()
        check()
