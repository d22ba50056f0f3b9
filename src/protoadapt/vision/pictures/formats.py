"""Picture formats: which files are pictures, and how one is opened without trusting it.

To read another format of pillow's, add a line to FORMATS. Every command then reads it.
"""

import errno
import os
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from io import BytesIO

import numpy as np
from PIL import Image, UnidentifiedImageError

from protoadapt.core.errors import UserError, install

FORMATS = {  # suffixes by pillow's name of a format; no others: EPS, for one, runs a program
    "JPEG": (".jpg", ".jpeg", ".jfif"),
    "PNG": (".png",),
    "WEBP": (".webp",),
    "BMP": (".bmp",),
    "GIF": (".gif",),
    "TIFF": (".tif", ".tiff"),
    "PPM": (".ppm",),
    "HEIF": (".heic", ".heif"),
}
SUFFIXES = {suffix for suffixes in FORMATS.values() for suffix in suffixes}
BUILT_IN = tuple(name for name in FORMATS if name != "HEIF")
LISTED = f"{', '.join(BUILT_IN)}, with pillow-heif HEIF"
"""The formats in words, as every message and page has them."""
_HEIF = re.compile(rb"(?s).{4}ftyp(heic|heix|mif1|msf1|hevc)")
MAX_PIXELS = 89_478_485  # pillow's own limit, which it only warns at: a few kilobytes can claim to be terabytes


class UnreadablePicture(ValueError):
    """A file that is not a picture or is damaged. The text is deterministic: no addresses, no paths of this machine."""


def is_picture(name: str | bytes) -> bool:
    """Whether a file name has the suffix of a picture and is not hidden."""
    name = os.fsdecode(name)
    return not name.startswith(".") and os.path.splitext(name)[1].lower() in SUFFIXES


@cache
def readable() -> tuple[str, ...]:
    """The formats that can be read here: HEIF where its plugin is installed, which is registered with pillow."""
    with suppress(ImportError):
        import_module("pillow_heif").register_heif_opener()
        return tuple(FORMATS)
    return BUILT_IN


def open_image(content: bytes) -> Image.Image:
    """Open the bytes of a picture file without decoding it, so that its size can be checked first.

    Raises UnreadablePicture where it is empty, too large, not a picture, needs a plugin that is not installed, or has
    32 bits per value.
    """
    if not content:
        raise UnreadablePicture("it is an empty file")
    if _HEIF.match(content) and "HEIF" not in readable():
        raise UnreadablePicture(f"it is HEIC, which needs pillow-heif: {install('label')}")
    try:
        image = Image.open(BytesIO(content), formats=readable())
    except UnidentifiedImageError as error:  # the text is the same on every machine, whatever plugins it has
        raise UnreadablePicture(f"it is no picture of a known kind ({LISTED})") from error
    except Image.DecompressionBombError as error:
        raise UnreadablePicture(f"it has more than {MAX_PIXELS:,} pixels") from error
    if image.width * image.height > MAX_PIXELS:
        raise UnreadablePicture(f"it has more than {MAX_PIXELS:,} pixels ({image.width} × {image.height})")
    if image.mode == "F" or (image.mode == "I" and image.format == "TIFF"):  # of a PPM, "I" is 16 bits
        raise UnreadablePicture("its values have 32 bits, so white is unknown: save it with 8 or 16 bits")
    return image


OF_THE_FILE = {getattr(errno, name) for name in ("ENOENT", "ENOTDIR", "EISDIR", "EACCES", "EPERM", "ELOOP")}
OF_THE_FILE |= {errno.ENAMETOOLONG, errno.ENXIO}  # ENXIO: a socket
"""Errors of the system that say something about one file. All others may pass: a file server is away, memory or file
descriptors have run out."""


def transient(error: Exception) -> bool:
    """Whether an error of the system says nothing about the picture, so that another try may succeed."""
    return isinstance(error, OSError) and error.errno is not None and error.errno not in OF_THE_FILE


def reason(error: Exception, name: str) -> str:
    """Why a picture cannot be read, in a few words for a list of skipped pictures.

    Pillow's own messages may hold memory addresses, so an error that is not ours is named by its type. An error that
    may pass (`transient`, or memory that has run out) raises UserError instead, with the picture's name: no list and
    no cache may hold a good picture as a damaged one.
    """
    again = "run the same command again; what is done is kept"
    if transient(error):
        raise UserError(f"{name!r} cannot be read now ({error.strerror}): {again}") from error  # type: ignore[attr-defined]
    if not (isinstance(error, UnreadablePicture) or _memory_is_left()):
        raise UserError(
            f"there is not enough memory to decode {name!r}: close other programs or use fewer workers, and {again}"
        ) from error
    if isinstance(error, UnreadablePicture):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return f"it cannot be opened ({error.strerror})"
    return f"it is truncated or damaged ({type(error).__name__})"


@contextmanager
def quiet_pillow() -> Iterator[None]:
    """Silence pillow's warnings about sizes and metadata: a picture that is too large is refused and listed."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="PIL")
        yield


def _memory_is_left() -> bool:
    """Whether a buffer for the largest picture could be had.

    If not, any error of a decoder may be due to that, whatever it says. If so, it is the file's: a damaged one can make
    pillow ask for more memory than there is.
    """
    with suppress(MemoryError):
        np.empty(4 * MAX_PIXELS, np.uint8)  # reserved, and given back untouched
        return True
    return False
