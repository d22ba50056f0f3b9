"""Picture formats: which files are pictures, and how one is opened without trusting it.

To read another format, add its pillow name to FORMATS and its suffixes to SUFFIXES. Every command then reads it.
"""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from io import BytesIO

from PIL import Image, UnidentifiedImageError

FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF", "PPM")  # no others: EPS, for one, runs a program
SUFFIXES = {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".heic", ".heif"}
HEIC_BRANDS = (b"heic", b"heix", b"mif1", b"msf1", b"hevc")
MAX_PIXELS = 89_478_485  # pillow's own limit, which it only warns at: a few kilobytes can claim to be terabytes


class UnreadablePicture(ValueError):
    """A file that is not a picture or is damaged. The text is deterministic: no addresses, no paths of this machine."""


def is_picture(name: str | bytes) -> bool:
    """Whether a file name has the suffix of a picture and is not hidden."""
    name = os.fsdecode(name)
    return not name.startswith(".") and os.path.splitext(name)[1].lower() in SUFFIXES


def open_image(content: bytes) -> Image.Image:
    """Open a picture without decoding it, so that its size can be checked first.

    Parameters
    ----------
    content : bytes of a picture file in one of FORMATS, or HEIC where `pillow-heif` is installed.

    Raises UnreadablePicture where the file is empty, too large or not a picture.
    """
    if not content:
        raise UnreadablePicture("it is an empty file")
    if content[4:8] == b"ftyp" and content[8:12] in HEIC_BRANDS and not _heic_formats():
        raise UnreadablePicture("it is HEIC, which needs another package: pip install pillow-heif")
    try:
        image = Image.open(BytesIO(content), formats=(*FORMATS, *_heic_formats()))
    except UnidentifiedImageError as error:
        raise UnreadablePicture(f"it is no picture of a known kind ({', '.join(FORMATS)})") from error
    except Image.DecompressionBombError as error:
        raise UnreadablePicture(f"it has more than {MAX_PIXELS:,} pixels") from error
    if image.width * image.height > MAX_PIXELS:
        raise UnreadablePicture(f"it has more than {MAX_PIXELS:,} pixels ({image.width} × {image.height})")
    return image


def reason(error: Exception) -> str:
    """Why a picture cannot be read, in a few words for a list of skipped pictures.

    Pillow's own messages may hold memory addresses, so an error that is not ours is named by its type.
    """
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


@cache
def _heic_formats() -> tuple[str, ...]:
    try:
        from pillow_heif import register_heif_opener
    except ImportError:
        return ()
    register_heif_opener()
    return ("HEIF",)
