"""A dataset without a download: letters and signs drawn from the fonts that come with matplotlib.

367 characters of five scripts, each in 12 to 22 faces; colour, background, size and pose are random, and three numbers
determine a picture: (seed, character, index). The characters were chosen once and are listed in splits.json: letters
without accents, digits and currency signs that all faces of DejaVu have; of characters that look alike at any size or
mirrored (Latin A, Greek Α, Cyrillic А; S and s; b and d, since training may flip pictures), only the first. Two
characters look alike when, scaled to one size, the intersection of their ink is at least 0.7 of its union, in DejaVu
Sans or Serif.
"""

from functools import cache, lru_cache, partial
from math import radians
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from protoadapt.vision.pictures.decode import Picture
from protoadapt.vision.pictures.split import SplitSource, fingerprint

PER_CLASS = 60
DRAWING = 3  # version of the drawing code, part of the cache key: raise it when pictures change

STYLES = {
    "DejaVuSans": ("", "-Bold", "-Oblique", "-BoldOblique"),
    "DejaVuSansMono": ("", "-Bold", "-Oblique", "-BoldOblique"),
    "DejaVuSerif": ("", "-Bold", "-Italic", "-BoldItalic"),
    "STIXGeneral": ("", "Bol", "Italic", "BolIta"),
}
FACES = tuple(family + style for family, styles in STYLES.items() for style in styles)
ASCII_FACES = ("cmb10", "cmmi10", "cmr10", "cmss10", "cmti10", "cmtt10")  # Computer Modern: other codes are not Unicode


def drawn(characters: list[str], per_class: int = PER_CLASS, seed: int = 0) -> SplitSource:
    """`per_class` pictures of each character, drawn when they are decoded."""

    def read() -> list[Picture]:
        return [
            Picture(f"U+{ord(character):04X}/{index:05d}", character, partial(draw_glyph, character, index, seed))
            for character in characters
            for index in range(per_class)
        ]

    return SplitSource(Path(), fingerprint([DRAWING, seed, per_class, *characters]), read, characters)


def draw_glyph(character: str, index: int, seed: int, size: int) -> Image.Image:
    """One picture (size × size, RGB); the same arguments give the same picture.

    Example: `draw_glyph("ß", 0, seed=0, size=84).save("glyph.png")`.
    """
    rng = np.random.default_rng([seed, ord(character), index])
    known = faces(character)
    ink = _posed(_ink(character, known[rng.integers(len(known))], 3 * size), size, rng)
    ground, colour = _colours(rng)
    paper = _paper(ground, size, rng)
    fill = colour + rng.uniform(-60, 60, 3) * (_ramp(size, rng) - 0.5)  # the ink has a slight colour gradient
    noise = rng.normal(0, rng.uniform(2, 14), (size, size, 3))
    return Image.fromarray(np.clip(paper + ink * (fill - paper) + noise, 0, 255).astype(np.uint8))


@cache
def faces(character: str) -> tuple[str, ...]:
    """The font faces that have a glyph for the character."""
    return tuple(name for name in FACES if ord(character) in _charmap(name)) + ASCII_FACES * (
        character.isascii() and character.isalnum()
    )


def _path(face: str) -> str:
    import matplotlib  # loaded when the first picture is drawn: importing it takes long

    return str(Path(matplotlib.get_data_path(), "fonts", "ttf", f"{face}.ttf"))


@cache
def _charmap(face: str) -> frozenset[int]:
    from matplotlib.ft2font import FT2Font

    return frozenset(FT2Font(_path(face)).get_charmap())


@cache
def _font(face: str, em: int) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(_path(face), em, layout_engine=ImageFont.Layout.BASIC)


@lru_cache(maxsize=256)
def _ink(character: str, face: str, em: int) -> Image.Image:
    """The glyph alone, white on black, cut to its ink."""
    font = _font(face, em)
    left, top, right, bottom = font.getbbox(character)
    sheet = Image.new("L", (int(right - left) + 4, int(bottom - top) + 4))
    ImageDraw.Draw(sheet).text((2 - left, 2 - top), character, font=font, fill=255)
    return sheet.crop(sheet.getbbox())


def _posed(ink: Image.Image, size: int, rng: np.random.Generator) -> np.ndarray:
    """The glyph near the middle, scaled, stretched, sheared and rotated: (size, size, 1) from 0 to 1."""
    turn, shear = radians(rng.uniform(-25, 25)), rng.uniform(-0.25, 0.25)
    scale = 2 * size * rng.uniform(0.45, 0.85) / max(ink.size)
    stretch = np.exp(rng.uniform(-0.2, 0.2))
    rotation = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    pose = rotation @ np.array([[1, shear], [0, 1]]) @ np.diag([scale * stretch, scale / stretch])
    # pillow takes the inverse transform; drawing at twice the size and halving smooths the edges
    back = np.linalg.inv(pose)
    middle = size * (1 + rng.uniform(-0.2, 0.2, 2))
    offset = np.array(ink.size) / 2 - back @ middle
    inverse = (*back[0], offset[0], *back[1], offset[1])
    sheet = ink.transform((2 * size, 2 * size), Image.Transform.AFFINE, inverse, Image.Resampling.BICUBIC)
    sheet = sheet.filter(ImageFilter.GaussianBlur(rng.uniform(0, size / 32))).reduce(2)
    return np.asarray(sheet, np.float64)[..., None] / 255


def _colours(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Background and ink colours whose brightness differs by more than 60 of 255."""
    while True:
        ground, ink = rng.uniform(0, 255, (2, 3))
        if abs((ground - ink) @ (0.299, 0.587, 0.114)) > 60:
            return ground, ink


def _paper(colour: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """A plain background, a gradient, or clouds: (size, size, 3)."""
    kind = rng.integers(3)
    if kind == 0:
        return np.broadcast_to(colour, (size, size, 3))
    if kind == 1:
        return colour + rng.uniform(-90, 90, 3) * (_ramp(size, rng) - 0.5)
    cells = rng.integers(3, 9)
    coarse = Image.fromarray(rng.integers(0, 256, (cells, cells), np.uint8).astype(np.uint8))
    clouds = np.asarray(coarse.resize((size, size), Image.Resampling.BICUBIC), np.float64)[..., None] / 255
    return colour + rng.uniform(-80, 80, 3) * (clouds - 0.5)


def _ramp(size: int, rng: np.random.Generator) -> np.ndarray:
    """From 0 to 1 across the picture in a random direction: (size, size, 1)."""
    angle = rng.uniform(0, 2 * np.pi)
    line = np.linspace(-0.5, 0.5, size)
    slope = np.cos(angle) * line[None, :] + np.sin(angle) * line[:, None]
    return (slope / np.sqrt(2) + 0.5)[..., None]
