"""One batch of a shard: bytes to pixels, and which pictures could not be read and why.

Reasons are part of the output, which is the same bytes whoever makes it: they hold no addresses and no machine's paths.
"""

import errno
import hashlib
import io
import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image, UnidentifiedImageError

from protoadapt.vision.pictures.decode import FORMATS, Picture, decode
from protoadapt.vision.pictures.walk import Entry, plain_file

BATCH = 64
"""Pictures that pass the network together. A row's last bits depend on it, so it is fixed, and short batches are filled
up; it is what the network of one worker process can hold beside others."""
LARGEST = 1 << 28  # bytes of a picture file
PASSING = {errno.EIO, errno.ESTALE, errno.EAGAIN, errno.ETIMEDOUT, errno.ENFILE, errno.EMFILE, errno.ENOMEM}
"""Errors that say nothing of the picture: a file server that is away, a machine that is out of something."""
TRIES = 3


class Decoded(NamedTuple):
    """pixels (BATCH, 3, size, size) uint8, black where there is no picture; broken: (position in the batch, reason)."""

    pixels: np.ndarray
    broken: list[tuple[int, str]]


class Unreadable(Exception):
    """A picture that costs one row."""


def decoded(root: Path, entries: Sequence[Entry], size: int) -> Decoded:
    pixels = np.zeros((BATCH, 3, size, size), np.uint8)
    broken = []
    for row, entry in enumerate(entries):
        try:
            pixels[row] = to_pixels(content(root, entry), size)
        except Unreadable as reason:
            broken.append((row, str(reason)))
    return Decoded(pixels, broken)


def to_pixels(data: bytes, size: int) -> np.ndarray:
    """A picture file as (3, size, size) uint8, as `data.pictures.decode` makes it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of pillow's, about metadata and sizes; what is too large is refused
            return decode(Picture("", "", lambda _: Image.open(io.BytesIO(data), formats=FORMATS)), size)
    except UnidentifiedImageError as error:
        raise Unreadable(f"it is no picture of a known kind ({', '.join(FORMATS)})") from error
    except Exception as error:  # a broken file may fail in any way
        raise Unreadable(f"it is truncated or damaged ({type(error).__name__})") from error


def content(root: Path, entry: Entry) -> bytes:
    """The bytes of a picture, as they were when the manifest was written."""
    if entry.size < 0:
        raise Unreadable("it was listed and not there")
    if entry.size > LARGEST:
        raise Unreadable(f"its {entry.size:,} bytes are more than {LARGEST:,}")
    path = os.path.join(root, entry.path)
    for left in reversed(range(TRIES)):
        try:
            with open(path, "rb", opener=plain_file) as file:
                file.seek(entry.offset)
                data = file.read(entry.size + (not entry.member))  # of a file one byte more, which must not be there
            break
        except OSError as error:
            if error.errno in PASSING:
                if left:
                    continue
                raise  # a row lost for the network's mood would never be found again: the run stops instead
            raise Unreadable(f"it cannot be opened ({os.strerror(error.errno or 0)})") from error
    if len(data) != entry.size or (entry.sha256 and hashlib.sha256(data).hexdigest() != entry.sha256):
        raise Unreadable("it changed after the manifest was written")
    return data
