"""Reading the bytes of picture files: ordinary files of a sensible size, and members of tar files."""

import os
import stat
from pathlib import Path

from protoadapt.core.errors import UserError
from protoadapt.vision.pictures.formats import UnreadablePicture, transient
from protoadapt.vision.pictures.walk import Entry

MAX_BYTES = 512 << 20
"""Of a file: the largest picture that is read takes half of that without any compression."""


def read_file(path: str, offset: int = 0, size: int | None = None, tries: int = 3) -> bytes:
    """Read a picture file, or a part of it, into memory. A pipe or a device is refused at once and not waited for.

    Raises UnreadablePicture where it is no ordinary file or larger than MAX_BYTES, and OSError where it cannot be
    opened. Transient errors are tried again first.
    """
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise UnreadablePicture("it is no ordinary file")
            if (status.st_size if size is None else size) > MAX_BYTES:
                raise UnreadablePicture(f"it is larger than {MAX_BYTES >> 20} MB")
            file.seek(offset)
            return file.read(MAX_BYTES if size is None else size)
    except OSError as error:
        if tries == 1 or not transient(error):
            raise
        return read_file(path, offset, size, tries - 1)


def read_entry(root: str | Path, entry: Entry) -> bytes:
    """Read a picture of a manifest, of the size that it had when the manifest was written.

    Raises UnreadablePicture where it is missing or changed; OSError for transient errors, and UserError where `root` is
    away: a row lost to a busy file server would stay lost, so the run stops instead.
    """
    try:
        # Of a whole file one byte more, which must not be there.
        content = read_file(os.path.join(root, entry.path), entry.offset, entry.size + (not entry.member))
    except OSError as error:
        if transient(error):
            raise
        if not os.path.isdir(root):  # a drive that is not there now
            sentence = f"the folder {str(root)!r} is not there now: run the same command again when it is"
            raise UserError(sentence) from error
        raise UnreadablePicture(f"it cannot be opened ({os.strerror(error.errno or 0)})") from error
    if len(content) != entry.size:
        raise UnreadablePicture("it changed after the manifest was written")
    return content


def _without_waiting(path: str, flags: int) -> int:
    """An opener for `open`: opening a pipe that nobody writes to would wait forever."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
