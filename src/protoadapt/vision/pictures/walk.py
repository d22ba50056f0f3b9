"""Finding pictures: in folder trees, in lists of files and in tar files (WebDataset), one at a time.

A folder tree comes in the order of its full paths as bytes, the same on every machine. Of a tree the names of one
folder at a time are in memory, of a list or a tar file one.
"""

import mmap
import os
import re
import tarfile
from collections import Counter
from collections.abc import Collection, Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from protoadapt.core.errors import UserError, count
from protoadapt.vision.pictures.formats import is_picture

LONGEST_PATH = 1 << 16
_SUFFIXES_NAMED = 5
LINK = "a link to a folder, which is not followed: give that folder itself"
COMPRESSED = {".gz", ".tgz", ".zip", ".bz2", ".xz", ".zst"}


class Entry(NamedTuple):
    """One picture: a file, or a member of a tar file."""

    path: str  # of the file, relative to the root or absolute; bytes that are not text as Python escapes them
    size: int  # bytes of the picture; -1: listed but missing
    member: str = ""  # its name inside the tar file
    offset: int = 0  # where it begins inside the tar file

    @property
    def name(self) -> str:
        """The name shown to people: "./a.jpg" of a list or a tar file is "a.jpg"."""
        return os.path.normpath(f"{self.path}/{self.member}" if self.member else self.path)


class Skipped(NamedTuple):
    """A file or folder that is not read, and why."""

    file: str
    reason: str


class Listing(NamedTuple):
    """The pictures of a folder tree."""

    files: list[str]  # full paths, in order
    skipped: list[Skipped]


def find(sources: list[Path], others: Counter[str] | None = None) -> tuple[Path, Iterator[Entry]]:
    """Find the pictures of one folder, of one list of files, or of any number of uncompressed .tar files.

    A list has one path per line, or is NUL-separated as `find -print0` writes it. Returns the folder that
    paths are relative to, and an iterator over the pictures. `others` counts the suffixes of the folder's other files.
    """
    for source in sources:
        if not (source.is_dir() or source.is_file()):
            kind = "a pipe or a device" if source.exists() else "not there"
            raise UserError(f"{str(source)!r} is {kind}: give a folder, a list of files, or tar files")
    tars = [source for source in sources if source.suffix == ".tar" and not source.is_dir()]
    if tars and len(tars) == len(sources):
        root = Path(os.path.commonpath([source.resolve().parent for source in sources]))
        return root, chain.from_iterable(tar_members(root, source.resolve()) for source in sources)
    if len(sources) != 1:
        raise UserError(f"{len(sources)} sources are given: give one folder, one list, or any number of .tar files")
    source = sources[0].resolve()
    if source.is_dir():
        return source, walk_folder(source, others=others)
    if COMPRESSED & set(source.suffixes) or is_picture(source.name):
        raise UserError(
            f"{source.name!r} is no list of files: if it is compressed, unpack it first, and give the folder"
        )
    return source.parent, listed_files(source)


def find_pictures(root: str | Path, leave: Collection[str | Path] = ()) -> Listing:
    """List the pictures of a folder tree, with what was skipped; folders in `leave` are not entered."""
    root = os.fspath(root)
    if not os.path.isdir(root):
        raise UserError(f"there is no folder {root!r}: give one that holds pictures")
    skipped: list[Skipped] = []
    others: Counter[str] = Counter()
    files = [os.path.join(root, entry.path) for entry in walk_folder(root, leave, skipped, others)]
    return Listing(files, [*skipped, *([Skipped(root, no_pictures(others))] if others else [])])


def no_pictures(others: Counter[str]) -> str:
    """In words, how many files are not taken for pictures, by their suffixes."""
    kinds = [f"{number:,} {suffix or 'without any'}" for suffix, number in others.most_common(_SUFFIXES_NAMED)]
    return f"{count(others.total(), 'file')} without the suffix of a picture: {', '.join(kinds)}"


def walk_folder(
    root: str | Path,
    leave: Collection[str | Path] = (),
    skipped: list[Skipped] | None = None,
    others: Counter[str] | None = None,
) -> Iterator[Entry]:
    """Yield the pictures under a folder in the order of their paths.

    Hidden files and folders are left alone, and so are the folders in `leave` and those that `label` wrote: copies of
    sorted pictures are not new pictures. A link to a picture is followed; a link to a folder is not, as it may lead to
    the whole disk or in a ring. What is not entered or not a file is appended to `skipped`; without that list, a folder
    that cannot be opened is an error. `others` counts the suffixes of files that are not taken for pictures.
    """
    closed = {os.path.realpath(os.fsencode(path)) for path in leave}
    start = os.path.join(os.fsencode(root), b"")
    below = [iter([start])]
    while below:
        path = next(below[-1], None)
        if path is None:
            below.pop()
        elif not path.endswith(b"/"):
            yield Entry(os.fsdecode(path.removeprefix(start)), size_of(path))
        elif path == start or not (os.path.realpath(path) in closed or is_label_output(path)):
            # A folder's name sorts with its slash, so that entering it at once gives the order of the full paths.
            below.append(iter(_sorted_paths(path, skipped, others)))
        elif skipped is not None and any(walk_folder(os.fsdecode(path), [os.fsdecode(path) + "sorted"], [])):
            skipped.append(Skipped(os.fsdecode(path[:-1]), "pictures in a folder of results are left out"))


def _sorted_paths(folder: bytes, skipped: list[Skipped] | None, others: Counter[str] | None) -> list[bytes]:
    def skip(path: bytes, why: str) -> None:
        if skipped is not None:
            skipped.append(Skipped(os.fsdecode(path), why))

    try:
        entries = os.scandir(folder)
    except OSError as error:
        if skipped is None:
            raise UserError(f"{os.fsdecode(folder)!r} cannot be opened ({error.strerror}): check its rights") from error
        skip(folder.rstrip(b"/"), (error.strerror or "cannot be opened").lower())
        return []
    names: list[bytes] = []
    with entries:
        for entry in entries:
            if entry.name.startswith(b"."):
                continue
            if entry.is_dir(follow_symlinks=False):
                names.append(entry.name + b"/")
            elif entry.is_symlink() and os.path.isdir(entry.path):
                skip(entry.path, LINK)
            elif is_picture(entry.name) and (entry.is_file(follow_symlinks=False) or os.path.isfile(entry.path)):
                names.append(entry.name)
            elif is_picture(entry.name):
                skip(entry.path, "not an ordinary file" if os.path.exists(entry.path) else "a link to a missing file")
            elif others is not None:
                others[os.path.splitext(os.fsdecode(entry.name))[1].lower()] += 1
    return [folder + name for name in sorted(names)]


def pictures_in(folder: str | Path, others: Counter[str] | None = None) -> list[str]:
    """The names of the picture files directly inside a folder, in order; none where there is no such folder.

    `others` counts the suffixes of the other files.
    """
    if not os.path.isdir(folder):
        return []
    paths = _sorted_paths(os.path.join(os.fsencode(folder), b""), None, others)
    return [os.path.basename(os.fsdecode(path)) for path in paths if not path.endswith(b"/")]


def is_label_output(folder: str | bytes | Path) -> bool:
    """Whether `protoadapt label`, or `predict --out`, wrote its results into this folder."""
    place = Path(os.fsdecode(folder))
    written = (place / "classifier.safetensors").is_file() or (place / ".thumbs").is_dir()
    return written and (place / "labels.json").is_file()


def listed_files(file: Path) -> Iterator[Entry]:
    """Yield the files that a list names; relative paths start at the folder of the list."""
    with open(file, "rb") as opened:
        begin = opened.read(LONGEST_PATH)
        if begin.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise UserError(f"{file.name!r} is written in UTF-16: save the list as UTF-8")
        content = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) if begin else b""
        end = b"\0" if b"\0" in begin else b"\n"
        for name in re.compile(b"[^" + end + b"]+").finditer(content, 3 * begin.startswith(b"\xef\xbb\xbf")):
            if name.end() - name.start() > LONGEST_PATH:
                raise UserError(f"a name is longer than {LONGEST_PATH:,} bytes: this is not a list of files")
            path = os.fsdecode(name[0].rstrip(b"\r") if end == b"\n" else name[0])
            if path and "\0" not in path:
                full = os.path.join(file.parent, path)
                yield Entry(path, -1 if os.path.isdir(full) else size_of(full))


def tar_members(root: Path, file: Path) -> Iterator[Entry]:
    """Yield the pictures in a tar file, in its order, with the offset of their bytes: nothing is unpacked."""
    try:
        with tarfile.open(file, "r:") as tar:
            while (member := tar.next()) is not None:
                tar.members.clear()  # type: ignore[attr-defined]  # kept for random access, which is not needed
                suffixed = is_picture("x" + os.path.splitext(member.name)[1])  # hidden ones count here
                if suffixed and member.isreg() and not member.issparse():
                    yield Entry(str(file.relative_to(root)), member.size, member.name, member.offset_data)
    except (tarfile.TarError, ValueError, LookupError, OverflowError) as error:  # its headers may say anything
        raise UserError(f"{str(file)!r} is truncated or no plain tar file ({error}): download it again") from error


def size_of(path: str | bytes) -> int:
    """Bytes of a file; -1 where it is missing."""
    try:
        return os.stat(path).st_size
    except OSError:
        return -1
