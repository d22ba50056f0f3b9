"""Where pictures by the million are found: folder trees, lists of files, WebDataset tar files. One at a time.

Memory does not grow with the number of pictures. A folder tree comes in the order of its full paths as bytes, the same
on every machine; a folder of more than RUN entries is sorted in runs on disk.
"""

import errno
import hashlib
import heapq
import os
import stat
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import IO, NamedTuple

from protoadapt.core.errors import UserError
from protoadapt.vision.pictures.decode import SUFFIXES

RUN = 500_000  # names sorted in memory at once, some 50 MB
BLOCK = 1 << 20
LONGEST_PATH = 1 << 16


class Entry(NamedTuple):
    """One picture: a file, or a member of a tar file."""

    path: str  # of the file, relative to the manifest's root or absolute; names that are no text as Python holds them
    size: int  # bytes of the picture; -1: listed and not there
    member: str = ""  # its name inside the tar file
    offset: int = 0  # where it begins inside the tar file
    sha256: str = ""  # of its bytes, where asked for

    @property
    def name(self) -> str:
        """As people write it: "./a.jpg" of a list and of a tar file is "a.jpg"."""
        return os.path.normpath(f"{self.path}/{self.member}" if self.member else self.path)


def find(sources: list[Path]) -> tuple[Path, Iterator[Entry]]:
    """The folder that paths are relative to, and every picture of a folder, of a list, or of tar files."""
    for source in sources:
        if not source.exists():
            raise UserError(f"there is no {str(source)!r}: give a folder, a list of files, or tar files")
        if not (source.is_dir() or source.is_file()):
            raise UserError(f"{str(source)!r} is a pipe or a device: give a folder, a list of files, or tar files")
    tars = [source for source in sources if source.suffix == ".tar" and not source.is_dir()]
    if tars and len(tars) == len(sources):
        if len({source.resolve() for source in tars}) < len(tars):
            raise UserError("a tar file is given twice: its pictures would be, too")
        root = Path(os.path.commonpath([source.resolve().parent for source in sources]))
        return root, chain.from_iterable(tar_members(root, source.resolve()) for source in sources)
    if len(sources) != 1:
        raise UserError(f"{len(sources)} sources are given: one folder, one list, or any number of .tar files")
    source = sources[0].resolve()
    if source.is_dir():
        return source, folder_tree(source)
    if {".gz", ".tgz", ".zip", ".bz2", ".xz", ".zst"} & set(source.suffixes):
        raise UserError(f"{source.name!r} is compressed, and its pictures cannot be read one by one: unpack it first")
    if source.suffix.lower() in SUFFIXES:
        raise UserError(f"{source.name!r} is a picture: give a folder of pictures, a list of files, or tar files")
    return source.parent, listed(source)


def folder_tree(root: Path) -> Iterator[Entry]:
    """The pictures under a folder. What is hidden is left alone, and so are links to folders: they may lead in rings.

    A folder's name sorts with its slash, so that going down at once gives the order of the full paths.
    """
    start = os.path.join(os.fsencode(root), b"")
    below = [iter([start])]
    while below:
        path = next(below[-1], None)
        if path is None:
            below.pop()
        elif path.endswith(b"/"):
            below.append(_sorted_names(path))
        else:
            yield Entry(os.fsdecode(path.removeprefix(start)), size_of(os.fsdecode(path)))


def _sorted_names(folder: bytes) -> Iterator[bytes]:
    names: list[bytes] = []
    runs: list[IO[bytes]] = []
    suffixes = {os.fsencode(suffix) for suffix in SUFFIXES}
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(b"."):
                continue
            if entry.is_dir(follow_symlinks=False):
                names.append(entry.name + b"/")
            elif os.path.splitext(entry.name)[1].lower() in suffixes and entry.is_file():
                names.append(entry.name)
            if len(names) == RUN:
                runs.append(_spilled(sorted(names)))
                names = []
    for name in heapq.merge(sorted(names), *map(_pieces, runs)):
        yield folder + name
    for run in runs:
        run.close()


def _spilled(names: Iterable[bytes]) -> IO[bytes]:
    file = tempfile.TemporaryFile()  # noqa: SIM115  # closed when it is merged
    file.writelines(name + b"\0" for name in names)
    file.seek(0)
    return file


def _pieces(file: IO[bytes], end: bytes = b"\0") -> Iterator[bytes]:
    """What stands between ends, the last one with or without its own."""
    rest = b""
    while block := file.read(BLOCK):
        *whole, rest = (rest + block).split(end)
        yield from whole
        if len(rest) > LONGEST_PATH:
            raise UserError(f"a name of more than {LONGEST_PATH:,} bytes: this is no list of files")
    if rest:
        yield rest


def listed(file: Path) -> Iterator[Entry]:
    """The files that a list names, one a line, or as `find -print0` writes them; relative ones start at the list."""
    with open(file, "rb") as lines:
        begin = lines.read(LONGEST_PATH)
        if begin.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise UserError(f"{file.name!r} is written in UTF-16: save the list as UTF-8")
        if begin.startswith(b'{"schema":"protoadapt'):
            raise UserError(f"{file.name!r} is a manifest already: give it to extract --manifest")
        end = b"\0" if b"\0" in begin else b"\n"
        lines.seek(3 if begin.startswith(b"\xef\xbb\xbf") else 0)
        for line in _pieces(lines, end):
            path = os.fsdecode(line if end == b"\0" else line.rstrip(b"\r"))
            if path and "\0" not in path:
                yield Entry(path, _size_of_file(os.path.join(file.parent, path)))


def _size_of_file(path: str) -> int:
    return -1 if os.path.isdir(path) else size_of(path)


def tar_members(root: Path, file: Path) -> Iterator[Entry]:
    """The pictures in a tar file, in its order, with where their bytes lie: they are read there, never unpacked."""
    try:
        with tarfile.open(file, "r:") as tar:
            while (member := tar.next()) is not None:
                tar.members.clear()  # type: ignore[attr-defined]  # kept for random access, which nobody asks for
                picture = os.path.splitext(member.name)[1].lower() in SUFFIXES
                if picture and member.isreg() and not member.issparse():
                    yield Entry(str(file.relative_to(root)), member.size, member.name, member.offset_data)
    except (tarfile.TarError, ValueError, LookupError, OverflowError) as error:  # its headers may say anything
        raise UserError(f"{str(file)!r} is truncated or no plain tar file ({error}): get it again") from error


def plain_file(path: str, flags: int) -> int:
    """For `open`. A list may name a pipe: nobody writes to it, and opening it would take forever."""
    handle = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is no plain file", path)
    return handle


def hashed(root: Path, entries: Iterable[Entry]) -> Iterator[Entry]:
    """The same with the sha256 of each picture's bytes; those that cannot be read stay without."""
    for entry in entries:
        try:
            with open(os.path.join(root, entry.path), "rb", opener=plain_file) as file:
                digest, left = hashlib.sha256(), entry.size
                file.seek(entry.offset)
                while left > 0 and (block := file.read(min(left, BLOCK))):
                    digest.update(block)
                    left -= len(block)
            yield entry._replace(sha256=digest.hexdigest())
        except OSError:
            yield entry


def size_of(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return -1
