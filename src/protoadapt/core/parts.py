"""A table of millions of rows: a folder of parts, read one after the other in every pass.

    part-000042.npy     rows (n, D) float16
    part-000042.jsonl   two lines of JSON: what the part is (`record`), and the lists of its rows (`lists`)
    index.json          what all parts have in common, and how many there are

The second file is written last and holds the sha256 of both, so a part is there whole or not at all, and the same
arguments give the same bytes whoever writes it. A record says which part it is, how its rows were made (the entries
MADE), of which list of pictures (`of`), and which pictures cannot be read (`broken`). The lists are as long as the
rows: `names`, and `numbers` (where a row's picture stands among all of its part).
"""

import hashlib
import json
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

import numpy as np

from protoadapt.core.errors import UserError, intact, whole
from protoadapt.core.files import write_bytes, write_json
from protoadapt.core.threads import ahead, cores, one_thread

B = TypeVar("B")
_SCHEMA = "protoadapt-table/1"
INDEX = "index.json"
MADE = ("weights", "engine", "views", "manifest")
"""How rows were made; the same in all parts of a table."""
_HEADERS = Lock()
"""numpy reads headers with Python's parser of literals, which in Python 3.11 fails in several threads at once."""
_AGAIN = "run protoadapt extract --manifest again"


class Damaged(UserError):
    """A part that is missing, incomplete or changed; its cause says how."""


@dataclass(frozen=True)
class Part:
    """A part whose rows are not yet read: the file of its rows, their shape, and its record."""

    path: Path
    number: int
    shape: tuple[int, int]
    record: Mapping[str, Any]


_Place = tuple[int, int, np.ndarray]
"""The part of a row, its position there, and the row (D)."""


def part_file(folder: Path, number: int) -> Path:
    """The file of a part's rows."""
    return folder / f"part-{number:06d}.npy"


def write_part(
    folder: Path, number: int, rows: np.ndarray, lists: Mapping[str, list[Any]], record: Mapping[str, Any]
) -> None:
    """Writes a part, whole or not at all: rows (n, D), its lists and what it says of itself (`of`, MADE, `broken`)."""
    path = part_file(folder, number)
    rows = np.ascontiguousarray(rows, "<f2")
    second = _line(lists)
    record = {"schema": _SCHEMA, "part": number, "shape": rows.shape, **record}
    record["sha256"] = _digest(record, second, rows)
    content = BytesIO()  # straight into a file numpy would lose rows on a full disk and say nothing
    np.save(content, rows, allow_pickle=False)
    write_bytes(path, content.getbuffer())
    write_bytes(path.with_suffix(".jsonl"), _line(record) + second)


def read_part(folder: Path, number: int) -> Part:
    """What a part says of itself; its rows are not read. Raises Damaged."""
    path = part_file(folder, number)
    with _whole(path):
        if not (path.is_file() and path.with_suffix(".jsonl").is_file()):  # a pipe would never end
            raise ValueError("it is not there")
        with open(path.with_suffix(".jsonl"), "rb") as file:
            record = json.loads(file.readline())
        if (record["schema"], record["part"], type(record["broken"])) != (_SCHEMA, number, list):
            raise ValueError("the file beside it describes another")
        rows, dim = record["shape"]
        return Part(path, number, (rows, dim), record)


def read_rows(part: Part) -> np.ndarray:
    """The rows (n, D) float16 of a part, in memory; `check_part` compares them with their checksum. Raises Damaged."""
    with _whole(part.path):
        with _HEADERS:
            mapped = np.load(part.path, mmap_mode="r", allow_pickle=False)
        if (mapped.shape, mapped.dtype) != (part.shape, "<f2"):
            raise ValueError("it is not described by the file beside it")
        return np.array(mapped)


def read_lists(part: Part) -> dict[str, Any]:
    """The names and numbers of a part's rows."""
    return json.loads(_second_line(part))


def check_part(folder: Path, number: int) -> Part:
    """Reads a part and compares every byte with its checksum. Raises Damaged."""
    part = read_part(folder, number)
    rows = read_rows(part)
    with _whole(part.path):
        record = dict(part.record)
        if record.pop("sha256", None) != _digest(record, _second_line(part), rows):
            raise ValueError("its checksum does not fit")
        if not np.isfinite(rows).all():
            raise ValueError("it holds NaN or infinite features")
    return part


def write_index(folder: Path, index: Mapping[str, Any]) -> None:
    """Writes what all parts have in common: MADE, `model`, `root`, and the numbers of `pictures` and `parts`."""
    write_json(folder / INDEX, {"schema": _SCHEMA, **index})


def read_index(folder: Path) -> dict[str, Any]:
    """What all parts of a table have in common. Raises UserError where the folder is no table."""
    path = folder / INDEX
    if not path.is_file():
        raise UserError(f"there are no features in {str(folder)!r}: make them with protoadapt extract --manifest")
    with intact(f"{str(path)!r} is damaged", "remove it and run protoadapt extract again"):
        index = json.loads(path.read_bytes())
        types = type(index["model"]), type(index["root"])
        fine = index["schema"] == _SCHEMA and index.keys() >= {*MADE} and types == (dict, str)
        if not (fine and whole(index["parts"], 1) and whole(index["pictures"], 0)):
            raise ValueError("of another kind")
        return index


@dataclass(frozen=True)
class PartsTable:
    """A table on disk. Iterating, as often as one likes, gives the rows (n, D) float16 of each part.

    Rows in `leave` (positions by number of the part) are left out; `tick` is called with the rows of each part that was
    read. One thread reads ahead, so memory does not grow with the table.

    >>> for rows in open_parts(Path("features")):                                     # doctest: +SKIP
    ...     total += rows.sum(0, dtype=np.float64)
    """

    parts: tuple[Part, ...]
    index: Mapping[str, Any]
    leave: Mapping[int, np.ndarray] = field(default_factory=dict)
    tick: Callable[[int], None] = lambda rows: None

    @property
    def n_rows(self) -> int:
        """Rows of all parts, those in `leave` included."""
        return sum(part.shape[0] for part in self.parts)

    def __iter__(self) -> Iterator[np.ndarray]:
        for part, rows in self._read():
            leave = self.leave.get(part.number)
            yield rows if leave is None else np.delete(rows, leave, 0)
            self.tick(len(rows))

    def each(self, function: Callable[[Part, np.ndarray], B]) -> Iterator[B]:
        """Yields function(part, rows) per part, in order, computed by threads; no row is left out."""
        with one_thread() as threads:  # a core per part: threads that share one product wait for each other
            answers = ahead(lambda pair: function(*pair), self._read(), 2 * threads, threads)
            for part, answer in zip(self.parts, answers):
                yield answer
                self.tick(part.shape[0])

    def _read(self) -> Iterator[tuple[Part, np.ndarray]]:
        return ahead(lambda part: (part, read_rows(part)), self.parts, 2, 1)

    def check(self) -> None:
        """Compares every byte of every part with its checksum. Raises Damaged."""
        deque(ahead(lambda part: check_part(part.path.parent, part.number), self.parts, 2 * cores()), 0)

    def find(self, names: Collection[str]) -> dict[str, _Place]:
        """The places of the rows with these names."""
        by_name: dict[str, _Place] = {}
        if not names:
            return by_name
        for part in self.parts:
            found = [(at, name) for at, name in enumerate(read_lists(part)["names"]) if name in names]
            rows = read_rows(part) if found else np.empty(0)
            for at, name in found:
                if name in by_name:
                    raise UserError(f"several rows have the name {name!r}: list each picture once in the manifest")
                by_name[name] = part.number, at, rows[at].copy()
        return by_name


def open_parts(folder: Path) -> PartsTable:
    """Opens the table in a folder, unread. Raises UserError where parts are missing, damaged or of another table.

    >>> open_parts(Path("features")).n_rows                                           # doctest: +SKIP
    10000000
    """
    index = read_index(folder)
    parts = [read_part(folder, number) for number in range(index["parts"])]
    for part in parts:
        if [part.record.get(key) for key in MADE] != [index[key] for key in MADE] or part.shape[1] != parts[0].shape[1]:
            raise UserError(f"{str(part.path)!r} belongs to another model or manifest than its folder: remove it")
    listed = sum(part.shape[0] + len(part.record["broken"]) for part in parts)
    if listed != index["pictures"] or part_file(folder, index["parts"]).exists():
        raise UserError(
            f"{INDEX} in {str(folder)!r} lists {index['pictures']:,} pictures in {index['parts']:,} parts, which does "
            f"not fit its files: remove {INDEX}, and {_AGAIN}"
        )
    return PartsTable(tuple(parts), index)


def _second_line(part: Part) -> bytes:
    with open(part.path.with_suffix(".jsonl"), "rb") as file:
        file.readline()
        return file.read()


def _line(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def _digest(record: Mapping[str, Any], second: bytes, rows: np.ndarray) -> str:
    digest = hashlib.sha256(json.dumps(record, sort_keys=True).encode() + b"\n" + second)
    digest.update(rows.data)
    return digest.hexdigest()


def _whole(path: Path) -> AbstractContextManager[None]:
    """Any error of reading an incomplete file becomes Damaged."""
    return intact(f"{path.name} is missing or damaged", f"{_AGAIN} to make it", Damaged)
