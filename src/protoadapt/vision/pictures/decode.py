"""Decoding: one picture, from a file, bytes, an array or a function, becomes pixels (3, size, size)."""

import re
import threading
from base64 import b64encode
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from io import BytesIO
from math import ceil, floor
from typing import NamedTuple

import numpy as np
from PIL import ExifTags, Image, ImageOps

from protoadapt.vision.pictures.formats import MAX_PIXELS, UnreadablePicture, open_image
from protoadapt.vision.pictures.read import read_file

THUMB, PREVIEW = 96, 256
"""Pixels per side of the pictures in galleries, and of those that a person looks at closely."""
LARGE_PICTURE = MAX_PIXELS // 4
_large = threading.Lock()
_DATE = re.compile(r"\d{4}:\d\d:\d\d \d\d:\d\d:\d\d\Z")


class Box(NamedTuple):
    """A rectangle in pixels of the stored picture, or of that picture at the size `measured_on`."""

    x: float
    y: float
    width: float
    height: float
    measured_on: tuple[int, int] | None = None


class Picture(NamedTuple):
    """A picture not yet opened: the path of a file, an array (H, W, 3) uint8, or a function that draws it at a size."""

    name: str  # relative to the root of its dataset
    label: str
    content: str | np.ndarray | Callable[[int], Image.Image]
    box: Box | None = None


class Resize(NamedTuple):
    """How timm resizes for evaluation: to floor(size / crop_pct) pixels, then size × size are cut from the centre."""

    crop_pct: float
    interpolation: str  # a name of PIL.Image.Resampling in small letters
    mode: str  # "center": the shorter side is resized and the aspect ratio kept; "squash": both sides are


def stored_resize(values: object) -> Resize | None:
    """What a file says of a network's resizing; None where that is nothing of the kind."""
    match values:
        case [float() | int() as crop_pct, str() as interpolation, "center" | "squash" as mode]:
            if 0.1 <= crop_pct <= 1 and interpolation.upper() in Image.Resampling.__members__:
                return Resize(float(crop_pct), interpolation, mode)
    return None


def decode(picture: Picture, size: int, resize: Resize | None = None) -> np.ndarray:
    """Decode a picture to pixels (3, size, size) uint8, RGB, upright (EXIF orientation applied), on white.

    Its box, if it has one, is cut out first. Without `resize`, which says how a network wants its pictures, both sides
    are resized to `size`, whatever the aspect ratio: with a bilinear filter when shrinking, a bicubic one when
    enlarging. Raises UnreadablePicture or OSError.

    >>> decode(Picture("red", "", lambda size: Image.new("RGB", (4, 4), "red")), 2)[:, 0, 0].tolist()
    [255, 0, 0]
    """
    if isinstance(picture.content, str):
        return decode_bytes(read_file(picture.content), size, resize, picture.box)
    drawn = Image.fromarray(picture.content) if isinstance(picture.content, np.ndarray) else picture.content(size)
    return _pixels(drawn, picture.box, size, resize)


def decode_bytes(content: bytes, size: int, resize: Resize | None = None, box: Box | None = None) -> np.ndarray:
    """Decode the bytes of a picture file; see `decode`."""
    try:
        with open_image(content) as image:
            return _pixels(image, box, size, resize)
    except UnreadablePicture:
        raise
    except Exception:  # decoders may fail in any way, also for memory that other threads take
        with open_image(content) as image:
            return _pixels(image, box, size, resize)


def shrunk(content: bytes, *sides: int, largest: int | None = None) -> list[bytes]:
    """Make WebP files of at most so many pixels per side, the largest first: upright, and without any metadata.

    One of more than `largest` bytes, as of grass or gravel, is made again with less quality, then smaller. A picture is
    decoded once for all of them. Pillow would write a JPEG's comment, which may be a person's name, into
    every copy: so nothing but pixels is copied.
    """
    with open_image(content) as image, _turn(image):
        share = sides[0] / max(image.size)
        image.draft("RGB", (ceil(share * image.width), ceil(share * image.height)))  # a JPEG decodes to no less
        ImageOps.exif_transpose(image, in_place=True)
        small = _rgb(image)
    copies = []
    for side in sides:
        small.thumbnail((side, side), Image.Resampling.BILINEAR)
        small.info.clear()
        copies.append(_webp(small, largest))
    return copies


def taken_at(content: bytes) -> str:
    """When a picture was taken, in the form of EXIF, "2024:05:31 12:00:00", which sorts as text; or ""."""
    try:
        with open_image(content) as image:
            said = image.getexif()
            text = said.get_ifd(ExifTags.IFD.Exif).get(ExifTags.Base.DateTimeOriginal) or said.get(
                ExifTags.Base.DateTime
            )
    except Exception:  # damaged metadata, of a picture that is whole
        return ""
    return text if isinstance(text, str) and _DATE.match(text) else ""


def _webp(image: Image.Image, largest: int | None) -> bytes:
    quality = 72
    while True:
        copy = BytesIO()
        image.save(copy, "WEBP", quality=quality, method=2)  # half the time of the usual 4, files 4 % larger
        if largest is None or len(content := copy.getvalue()) <= largest or min(image.size) == 1:
            return copy.getvalue()
        if quality > 24:
            quality -= 24
        else:
            ratio = min(0.9, (largest / len(content)) ** 0.5)
            image = image.resize((max(1, int(image.width * ratio)), max(1, int(image.height * ratio))))


def data_url(content: bytes) -> str:
    """A WebP file as text for the `src` attribute of an HTML image."""
    return f"data:image/webp;base64,{b64encode(content).decode()}"


def _turn(image: Image.Image) -> AbstractContextManager[object]:
    """What threads hold while they decode a picture: of large ones there is memory for one at a time."""
    # An ordinary JPEG is decoded at a fraction of its size; a progressive one is held whole first.
    small = image.format == "JPEG" and not image.info.get("progressive")
    return nullcontext() if small or image.width * image.height <= LARGE_PICTURE else _large


def _pixels(image: Image.Image, box: Box | None, size: int, resize: Resize | None) -> np.ndarray:
    width, height = image.size
    x0, y0, x1, y1 = _corners(box, width, height) if box else (0.0, 0.0, width, height)
    with _turn(image):
        # A JPEG decodes straight to a half, quarter or eighth of its size; twice the target keeps the resize smooth.
        if resize is None and x1 > x0 and y1 > y0:
            image.draft(None, (ceil(width * 2 * size / (x1 - x0)), ceil(height * 2 * size / (y1 - y0))))
        if box:
            across, down = image.width / width, image.height / height
            left, right = _span(x0 * across, x1 * across, image.width)
            top, bottom = _span(y0 * down, y1 * down, image.height)
            image = image.crop((left, top, right, bottom))
        ImageOps.exif_transpose(image, in_place=True)
        image = _rgb(image)
    if resize:
        image = _resized_and_cut(image, size, resize)
    elif image.size != (size, size):
        grows = image.width < size and image.height < size
        # Shrinking, pillow's bilinear filter averages over the pixels it drops; growing, bicubic stays sharp.
        image = image.resize((size, size), Image.Resampling.BICUBIC if grows else Image.Resampling.BILINEAR)
    return np.asarray(image).transpose(2, 0, 1)


def _resized_and_cut(image: Image.Image, size: int, resize: Resize) -> Image.Image:
    target = floor(size / resize.crop_pct)
    shorter = min(image.size)
    squash = resize.mode == "squash"
    sides = [target if squash or side == shorter else int(target * side / shorter) for side in image.size]
    image = image.resize((sides[0], sides[1]), Image.Resampling[resize.interpolation.upper()])
    left, top = (round((side - size) / 2) for side in sides)
    return image.crop((left, top, left + size, top + size))


def _rgb(image: Image.Image) -> Image.Image:
    """Convert a picture of any mode to RGB with 8 bits. Pillow alone would clip grey values of 16 bits at 255.

    A transparent picture is laid on white, as browsers and printers show it: what its transparent pixels hold is
    whatever a program left there.
    """
    if image.mode.startswith("I"):
        image = image.convert("F").point(lambda value: value * (255 / 65535) + 0.5).convert("L")
    elif image.has_transparency_data:
        layer = image.convert("RGBA")
        image = Image.new("RGB", image.size, "white")
        image.paste(layer, mask=layer)
    return image if image.mode == "RGB" else image.convert("RGB")


def _corners(box: Box, width: int, height: int) -> tuple[float, float, float, float]:
    full_width, full_height = box.measured_on or (width, height)
    across, down = width / full_width, height / full_height
    return box.x * across, box.y * down, (box.x + box.width) * across, (box.y + box.height) * down


def _span(start: float, stop: float, length: int) -> tuple[int, int]:
    """Whole pixels from start to stop, inside the picture and never empty."""
    first = min(max(round(start), 0), length - 1)
    return first, min(max(round(stop), first + 1), length)
