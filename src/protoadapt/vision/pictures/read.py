"""Pictures as people keep them: a folder of any depth, most formats, some of them broken."""

import hashlib
import os
import stat
import threading
from base64 import b64encode
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from protoadapt.core.errors import UserError
from protoadapt.vision.pictures.decode import FORMATS, MAX_PIXELS, SUFFIXES, Picture, decode, rgb

HEIC = {".heic", ".heif"}
MAX_BYTES = 512 << 20
"""Of a file: the largest picture that is read takes half of that without any compression."""
THUMB, PREVIEW = 96, 256
"""Pixels a side of what galleries show, and of what a person looks at closely."""


class Skipped(NamedTuple):
    file: str
    reason: str


class Found(NamedTuple):
    files: list[str]  # full paths, in order
    skipped: list[Skipped]


def find_pictures(root: str | Path, leave: Collection[str | Path] = ()) -> Found:
    """The pictures in a folder and those below it.

    What is hidden is left alone, and so are the folders in `leave` and those that an earlier `label` wrote. A link to
    a picture is followed wherever it leads, as we only read; a link to a folder is not, as one link can lead to the
    whole disk or back to where it stands: it is listed.
    """
    root = os.fspath(root)
    if not os.path.isdir(root):
        raise UserError(f"there is no folder {root!r}: give one that holds pictures")
    left = {os.path.realpath(path) for path in leave}
    found, skipped = [], []

    def refused(error: OSError) -> None:
        skipped.append(Skipped(error.filename, (error.strerror or "cannot be opened").lower()))

    for folder, inner, files in os.walk(root, onerror=refused):
        links = [name for name in inner if name[0] != "." and os.path.islink(os.path.join(folder, name))]
        skipped += [
            Skipped(os.path.join(folder, name), "a link to a folder: label that folder itself") for name in links
        ]
        inner[:] = sorted(
            name
            for name in inner
            if name[0] != "."
            and name not in links
            and os.path.realpath(path := os.path.join(folder, name)) not in left
            and not is_output(path)
        )
        found += [os.path.join(folder, name) for name in sorted(files) if is_picture(name)]
    return Found(found, skipped)


def is_picture(name: str) -> bool:
    return name[0] != "." and os.path.splitext(name)[1].lower() in SUFFIXES | HEIC


def is_output(folder: str) -> bool:
    """Whether `label` wrote here: copies of pictures that it sorted are not new pictures."""
    return all(os.path.isfile(os.path.join(folder, name)) for name in ("labels.json", "classifier.safetensors"))


def read(path: str) -> bytes:
    """The bytes of an ordinary file of a sensible size; raises ValueError or OSError."""
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | getattr(os, "O_NONBLOCK", 0))) as file:
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode):
            raise ValueError("no ordinary file")
        if about.st_size > MAX_BYTES:
            raise ValueError(f"more than {MAX_BYTES >> 20} MB")
        return file.read(MAX_BYTES)


def digest(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


def pixels(content: bytes, size: int) -> np.ndarray:
    """(3, size, size) uint8, upright: as training and `extract` decode."""
    image = _opened(content)
    with _room.of(image):
        return decode(Picture("", "", lambda _: image), size)


def thumbnail(content: bytes, side: int = THUMB) -> bytes:
    """A JPEG of at most `side` pixels a side, upright; nothing of the file's metadata is in it."""
    image = _opened(content)
    if image.width * image.height > MAX_PIXELS:
        raise ValueError("too many pixels")
    with _room.of(image):
        image.draft("RGB", (2 * side, 2 * side))
        image = rgb(ImageOps.exif_transpose(image))
        image.thumbnail((side, side))
    small = BytesIO()
    image.save(small, "JPEG", quality=75)
    return small.getvalue()


def data_url(jpeg: bytes) -> str:
    return f"data:image/jpeg;base64,{b64encode(jpeg).decode()}"


def reason(error: Exception) -> str:
    """Why a picture could not be read, in a few words."""
    if isinstance(error, UnidentifiedImageError):
        return "no picture, or of a kind that is not read"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return " ".join(str(error).split())[:200] or type(error).__name__


class Room:
    """Bounds the pixels that threads decode at once; a picture larger than all the room has it alone."""

    def __init__(self, most: int):
        self.most = most
        self.taken = 0
        self._changed = threading.Condition()

    @contextmanager
    def of(self, image: Image.Image) -> Iterator[None]:
        # An ordinary JPEG is decoded at a fraction of its size; a progressive one is held whole first.
        small = image.format == "JPEG" and not image.info.get("progressive")
        pixels = 0 if small else image.width * image.height
        with self._changed:
            self._changed.wait_for(lambda: self.taken == 0 or self.taken + pixels <= self.most)
            self.taken += pixels
        try:
            yield
        finally:
            with self._changed:
                self.taken -= pixels
                self._changed.notify_all()


_room = Room(MAX_PIXELS)


def _opened(content: bytes) -> Image.Image:
    """Not decoded yet: a header that claims terabytes has not been believed."""
    if not content:
        raise ValueError("an empty file")
    if content[4:8] == b"ftyp" and content[8:12] in (b"heic", b"heix", b"mif1", b"msf1", b"hevc") and not _heic():
        raise ValueError("HEIC, which needs another package: pip install pillow-heif")
    return Image.open(BytesIO(content), formats=(*FORMATS, *_heic()))


@cache
def _heic() -> tuple[str, ...]:
    try:
        from pillow_heif import register_heif_opener
    except ImportError:
        return ()
    register_heif_opener()
    return ("HEIF",)
