"""Writing files: whole or not at all, and never over something else."""

import csv
import errno
import hashlib
import io
import json
import mmap
import os
import re
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from protoadapt.core.errors import UserError

PARTIAL = ".{}.partial"
"""The name of a half-written file: unique, as threads may write the same file, and short, as names may be too long."""
_FULL = {getattr(errno, name, -1) for name in ("ENOSPC", "EDQUOT", "EFBIG", "EROFS")}
"""Errors that only writing raises: the disk is full or read-only."""


def check_output(path: str | Path, *inputs: str | Path | None, kind: re.Pattern[bytes] | None = None) -> Path:
    """The path of an output file. Raises UserError, before any work is done, where nothing can be written there.

    That is a folder, a device, one of the inputs, or a file without `kind`, which is found in all that is written here.
    """
    path = Path(path)
    if not path.name or (path.exists() and not path.is_file()):
        raise UserError(f"{str(path)!r} is a folder, or no ordinary file: give the name of a file")
    if path.exists() and any(source and Path(source).exists() and path.samefile(source) for source in inputs):
        raise UserError(f"{str(path)!r} is also read, and writing would destroy it: give another name")
    if kind and path.exists() and path.stat().st_size:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            ours = kind.search(content) is not None
        if not ours:
            raise UserError(
                f"{str(path)!r} was not written by this command and would be replaced: move it away, or write elsewhere"
            )
    return path


def check_output_folder(path: Path) -> None:
    """Raises UserError, before any work is done, where the output folder is a file."""
    if path.exists() and not path.is_dir():
        raise UserError(f"{str(path)!r} is a file: give a folder")


@contextmanager
def locked(folder: Path) -> Iterator[bool | None]:
    """Yields whether this process holds the folder until the block ends: False where another does, None without locks.

    The system ends a lock with its process, however that dies.
    """
    place = held = None
    with suppress(ImportError, OSError):  # Windows, and network drives without locks
        import fcntl

        place = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
            held = True
        except BlockingIOError:
            held = False
    try:
        yield held
    finally:
        if place is not None:
            os.close(place)


SCRATCH = "protoadapt-scratch"
"""The folder in a temporary folder that says whose it is: others may have files under the same prefix."""


@contextmanager
def scratch_folder(place: Path, prefix: str) -> Iterator[Path]:
    """A temporary folder in `place`. Those that killed processes left there are removed first.

    It is in a private one, which is locked before that is made: so a new one is never taken for one that was left.
    """
    for left in place.glob(f"{prefix}*/{SCRATCH}"):
        with locked(left.parent) as held:
            if held:  # nobody's any more
                shutil.rmtree(left.parent, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=prefix, dir=place, ignore_cleanup_errors=True) as own, locked(Path(own)):
        folder = Path(own, SCRATCH)
        folder.mkdir()
        yield folder


def unchanged_since_now(path: Path) -> Callable[[], None]:
    """A function to call before the file is replaced: it raises UserError if the file was edited meanwhile.

    It compares contents, not times, which a quick edit may leave as they are.
    """
    before = path.read_bytes() if path.is_file() else None

    def check() -> None:
        if before != (path.read_bytes() if path.is_file() else None):
            raise UserError(
                f"{str(path)!r} was changed while this ran, and is left as it is: run the same command again"
            )

    return check


STALE = 3600
"""Seconds after which a half-written file that nothing is written to belongs to a process that was killed."""


@cache
def sweep(folder: Path) -> None:
    """Remove the half-written files that killed processes left in a folder, once in the life of this process."""
    with suppress(OSError):
        for partial in folder.glob(PARTIAL.format("[0-9a-f]" * 16)):
            if time.time() - partial.stat().st_mtime > STALE:
                partial.unlink()


@contextmanager
def written_whole(path: str | Path, again: bool = False) -> Iterator[Path]:
    """A temporary path to write to. It replaces `path` when the block ends without an error and is removed otherwise.

    again: whether it would be made again where it is lost; all else is on the disk before it takes its name. What
    killed processes left in the folder is removed when a process first writes there.
    """
    path = check_output(path)
    partial = path.with_name(PARTIAL.format(secrets.token_hex(8)))
    sweep(path.parent)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.touch()
        mode = partial.stat().st_mode  # of any new file here; safetensors writes files that only the owner may read
        yield partial
        partial.chmod(mode)
        if not again:
            with open(partial, "rb+") as file:
                os.fsync(file.fileno())
        os.replace(partial, path)
    except OSError as error:
        ours = map(str, (partial, *partial.parents))  # the caller may also read other files
        if error.errno not in _FULL and {str(error.filename), str(error.filename2)}.isdisjoint(ours):
            raise
        reason = error.strerror or str(error)
        raise UserError(
            f"{str(path)!r} cannot be written ({reason}): make room on the disk or choose another place"
        ) from error
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def write_bytes(path: str | Path, content: bytes | memoryview, again: bool = False) -> None:
    """Writes a file whole or not at all (`written_whole`)."""
    with written_whole(path, again) as partial:
        partial.write_bytes(content)


def write_text(path: Path, text: str, check: Callable[[], None] = lambda: None) -> None:
    """Writes UTF-8, whole or not at all. `check` may still refuse right before the file is replaced."""
    with written_whole(path) as partial:
        partial.write_bytes(text.encode())
        check()


LEAF = re.compile(r"[\[{]\n[^\[\]{}]+[\]}]")
"""An indented list or object without another inside. Line breaks in JSON are layout: those of strings are escaped."""


def json_text(value: Any) -> str:
    """JSON for people: innermost lists and objects take one line each."""
    return LEAF.sub(lambda leaf: re.sub(r"\n *", " ", leaf[0]), json.dumps(value, indent=1)) + "\n"


def write_json(path: Path, value: Any) -> None:
    """Writes one JSON file (`json_text`), whole or not at all."""
    write_text(path, json_text(value))


def cache_folder() -> Path:
    """Where this user's caches are. Raises RuntimeError where there is no home."""
    stated = Path(os.environ.get("XDG_CACHE_HOME", ""))
    home = stated if stated.is_absolute() else Path.home() / ".cache"  # by the standard, relative paths do not count
    return home / "protoadapt"


def sha256_of(path: str | Path) -> str:
    """The sha256 of a file's bytes, in hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_synced(path: Path, content: bytes) -> None:
    """Writes bytes and waits until the disk has them."""
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def csv_text(rows: Iterable[Sequence[object]]) -> str:
    """Rows as a csv file's text. Lines end in \\r\\n, as the standard has it: so names that hold either are quoted."""
    text = io.StringIO(newline="")
    csv.writer(text).writerows(rows)
    return text.getvalue()


FORMULA = ("=", "+", "-", "@", "\t", "\r")


def file_cell(name: str) -> str:
    """A file name for a CSV cell, with ./ before it where a spreadsheet would take it for a formula."""
    return f"./{name}" if name.startswith(FORMULA) else name
