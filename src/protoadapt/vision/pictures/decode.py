"""One picture: where it comes from, and how it becomes pixels."""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageOps

MAX_PIXELS = 89_478_485  # pillow's own limit, which it only warns at: a few kilobytes can claim to be terabytes

ORIENTATION = 0x0112  # the EXIF tag
FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF", "PPM")  # no others: EPS, for one, runs a program

SUFFIXES = {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm"}


class Box(NamedTuple):
    """A rectangle in pixels of the stored picture, or of that picture at the size `measured_on`."""

    x: float
    y: float
    width: float
    height: float
    measured_on: tuple[int, int] | None = None


class Picture(NamedTuple):
    """A picture not yet opened: a file, an array (H, W, 3) of uint8, or a function that draws it at a size."""

    name: str  # relative to the root of its dataset
    label: str
    content: str | np.ndarray | Callable[[int], Image.Image]
    box: Box | None = None


@dataclass(frozen=True)
class Source:
    """One split of a dataset as found on disk. `stamp` is cheap; `read` is called only when nothing is cached."""

    root: Path
    stamp: str
    read: Callable[[], list[Picture]]
    classes: list[str] | None = None  # None: the labels that `read` finds


def stamp(parts: Iterable[object]) -> str:
    """A fingerprint of names, sizes and the text of lists."""
    text = "\n".join(map(str, parts))
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def decode(picture: Picture, size: int) -> np.ndarray:
    """The picture as (3, size, size) uint8: cut to its box, turned upright, RGB, resized without keeping its shape."""
    if isinstance(picture.content, str):
        with Image.open(picture.content, formats=FORMATS) as image:
            return _pixels(image, picture.box, size)
    if isinstance(picture.content, np.ndarray):
        return _pixels(Image.fromarray(picture.content), picture.box, size)
    return _pixels(picture.content(size), picture.box, size)


def _pixels(image: Image.Image, box: Box | None, size: int) -> np.ndarray:
    width, height = image.size
    if width * height > MAX_PIXELS:
        raise ValueError(f"{width} × {height} pixels are more than {MAX_PIXELS:,}")
    x0, y0, x1, y1 = _corners(box, width, height) if box else (0.0, 0.0, width, height)
    # A JPEG decodes straight to a half, quarter or eighth of its size; twice the target keeps the resize smooth.
    if x1 > x0 and y1 > y0:
        image.draft(None, (ceil(width * 2 * size / (x1 - x0)), ceil(height * 2 * size / (y1 - y0))))
    white = _white(image)  # of the whole picture, whatever part is cut
    if box:
        across, down = image.width / width, image.height / height
        left, right = _span(x0 * across, x1 * across, image.width)
        top, bottom = _span(y0 * down, y1 * down, image.height)
        image = image.crop((left, top, right, bottom))
    if image.getexif().get(ORIENTATION, 1) != 1:
        image = ImageOps.exif_transpose(image)
    image = _rgb(image, white)
    if image.size != (size, size):
        grows = image.width < size and image.height < size
        # Shrinking, pillow's bilinear filter averages over the pixels it drops; growing, bicubic stays sharp.
        image = image.resize((size, size), Image.Resampling.BICUBIC if grows else Image.Resampling.BILINEAR)
    return np.asarray(image).transpose(2, 0, 1)


def rgb(image: Image.Image) -> Image.Image:
    """A picture of any mode as RGB of 8 bits. Pillow alone would cut deeper grey at 255, which is nearly black there.

    The value that is white: 65535 in 16 bits; in 32 bits, whose files do not say it, the first of 255 and 65535 (of
    floats: 1, 255 and 65535) that no pixel exceeds. Other values are refused.
    """
    return _rgb(image, _white(image))


def _rgb(image: Image.Image, white: float | None) -> Image.Image:
    if white is not None:
        scale = 255 / white
        image = image.convert("F").point(lambda value: value * scale + 0.5).convert("L")
    return image if image.mode == "RGB" else image.convert("RGB")


def _white(image: Image.Image) -> float | None:
    """None for modes of 8 bits."""
    if image.mode.startswith("I;16"):
        return 65535.0
    if image.mode not in ("I", "F"):
        return None
    values = np.asarray(image)
    low, high = float(values.min()), float(values.max())
    whites = (1.0, 255.0, 65535.0) if image.mode == "F" else (255.0, 65535.0)
    if not (low >= 0 and high <= whites[-1]):  # so that NaN is refused too
        raise ValueError(f"its values go from {low:g} to {high:g}, so white is unknown: save it with 8 or 16 bits")
    return next(white for white in whites if high <= white)


def _corners(box: Box, width: int, height: int) -> tuple[float, float, float, float]:
    full_width, full_height = box.measured_on or (width, height)
    across, down = width / full_width, height / full_height
    return box.x * across, box.y * down, (box.x + box.width) * across, (box.y + box.height) * down


def _span(start: float, stop: float, length: int) -> tuple[int, int]:
    """Whole pixels from start to stop, inside the picture and never empty."""
    first = min(max(round(start), 0), length - 1)
    return first, min(max(round(stop), first + 1), length)
