"""A manifest: a list of pictures, cut into shards, the units of work. JSON lines, written and read in a stream.

    {"schema": "protoadapt-manifest/1", "root": "/archive", "shard_size": 1024}
    {"path": "a/1.jpg", "size": 48213}                                        one line per picture
    {"path": "b.tar", "size": 3311, "member": "2.png", "offset": 1536}         or a member of a tar file
    {"pictures": 2, "shards": [[78, 105, 2, "9c1f…"]]}                         byte offset, bytes, pictures, sha256
    {"index": 183}                                                            byte offset of the line before

It is text, so that it can be searched, counted and compared without a library; one line per picture, as JSON escapes
names with newlines or without valid UTF-8; with an index at the end, as one process of a thousand reads only its own
shards. For tens of millions of pictures the index has a few megabytes.
"""

import hashlib
import itertools
import json
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from protoadapt.core.errors import UserError, intact, whole, whole_number
from protoadapt.core.files import written_whole
from protoadapt.vision.pictures.walk import Entry
from protoadapt.vision.shards import SHARD_SIZE

_SCHEMA = "protoadapt-manifest/1"
MANIFEST = re.compile(rb'\A\{"schema": ?"protoadapt-manifest/')
LARGEST_SHARD = 1_000_000
TRAILER = 64  # bytes of the last line, at most


class Shard(NamedTuple):
    """Where the lines of a shard are in the manifest."""

    offset: int
    length: int  # bytes
    pictures: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """The index of a manifest; the pictures of a shard stay on disk until they are read."""

    path: Path
    root: Path
    pictures: int
    shards: tuple[Shard, ...]
    sha256: str  # of the index, and so of everything but the root

    def read(self, number: int, start: int = 0, stop: int | None = None) -> list[Entry]:
        """The pictures of a shard, or those from `start` to `stop`."""
        shard = self.shards[number]
        with open(self.path, "rb") as file:
            file.seek(shard.offset)
            text = file.read(shard.length)
        if hashlib.sha256(text).hexdigest() != shard.sha256:
            raise UserError(
                f"{str(self.path)!r} was changed after it was written: write it again with protoadapt manifest"
            )
        return [Entry(**json.loads(line)) for line in text.splitlines()[start:stop]]


def write_manifest(
    path: str | Path,
    root: Path,
    entries: Iterable[Entry],
    shard_size: int = SHARD_SIZE,
    on_progress: Callable[[int], None] = lambda done: None,
) -> Manifest:
    """Write a manifest of what `find` returns, completely or not at all, with one shard in memory at a time."""
    whole_number("--shard-size", shard_size, 1, LARGEST_SHARD)
    entries = iter(entries)
    shards: list[Shard] = []
    done = there = 0
    with written_whole(path) as partial, open(partial, "wb") as file:
        file.write(_line({"schema": _SCHEMA, "root": str(root), "shard_size": shard_size}))
        while part := list(itertools.islice(entries, shard_size)):
            text = b"".join(_line({k: v for k, v in entry._asdict().items() if v or k == "size"}) for entry in part)
            shards.append(Shard(file.tell(), len(text), len(part), hashlib.sha256(text).hexdigest()))
            file.write(text)
            done += len(part)
            there += sum(entry.size >= 0 for entry in part)
            on_progress(done)
        if not shards:
            raise UserError(f"there is no picture in {str(root)!r}: give a folder that holds some, at any depth")
        if not there:
            raise UserError(
                f"none of {done:,} lines names a file: write one name per line and nothing else; relative names start "
                f"at {str(root)!r}"
            )
        at = file.tell()
        file.write(_line({"pictures": done, "shards": shards}))
        file.write(_line({"index": at}))
    return load_manifest(path)


def load_manifest(path: str | Path) -> Manifest:
    """Read the index of a manifest: two seeks, however long it is."""
    path = Path(path)
    if not path.is_file():
        raise UserError(f"there is no manifest {str(path)!r}: make one with protoadapt manifest")
    with intact(f"{str(path)!r} is truncated or not a manifest", "write it again with protoadapt manifest"):
        with open(path, "rb") as file:
            header = json.loads(file.readline(1 << 20))
            length = file.seek(0, os.SEEK_END)
            file.seek(max(length - TRAILER, 0))
            at = json.loads(file.read().splitlines()[-1])["index"]
            if header["schema"] != _SCHEMA:
                raise ValueError("another kind of file")
            file.seek(at)
            totals: dict[str, Any] = json.loads(file.readline())
        shards = tuple(Shard(*shard) for shard in totals["shards"])
        if not all(whole(number, 0, length) for shard in shards for number in shard[:3]):
            raise ValueError("shards that lie nowhere")
        # From the pictures alone: the offsets shift with the length of the root's name.
        identity = hashlib.sha256("".join(shard.sha256 for shard in shards).encode()).hexdigest()
        return Manifest(path, Path(header["root"]), totals["pictures"], shards, identity)


def _line(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"
