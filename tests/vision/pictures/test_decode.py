"""Decoding against pillow used by hand."""

import struct
import zlib
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from protoadapt.vision.pictures.decode import Box, Picture, decode, shrunk, taken_at
from protoadapt.vision.pictures.formats import UnreadablePicture


def noisy(width: int, height: int) -> Image.Image:
    rng = np.random.default_rng(width * 1000 + height)
    return Image.fromarray(rng.integers(0, 256, (height, width, 3), dtype=np.uint8))


def by_hand(image: Image.Image, size: int) -> np.ndarray:
    grows = image.width < size and image.height < size
    resized = image.resize((size, size), Image.Resampling.BICUBIC if grows else Image.Resampling.BILINEAR)
    return np.moveaxis(np.array(resized), -1, 0)


@pytest.mark.parametrize("shape", [(32, 32), (84, 84), (200, 100), (40, 300)])
def test_file_and_array_equal_pillow(tmp_path: Path, shape: tuple[int, int]) -> None:
    image = noisy(*shape)
    image.save(tmp_path / "a.png")
    for content in (str(tmp_path / "a.png"), np.asarray(image)):
        pixels = decode(Picture("a", "c", content), 84)
        assert pixels.shape == (3, 84, 84)
        assert pixels.dtype == np.uint8
        np.testing.assert_array_equal(pixels, by_hand(image, 84))


@given(
    x=st.integers(-5, 70),
    y=st.integers(-5, 50),
    width=st.integers(1, 90),
    height=st.integers(1, 70),
    reduced=st.sampled_from([1, 2, 4]),
)
def test_box_is_cut_before_resizing(x: int, y: int, width: int, height: int, reduced: int) -> None:
    """Also when the box was measured on a picture twice or four times as large as the one that is there."""
    image = noisy(80, 60)
    cut = image.crop(
        (max(x, 0), max(y, 0), min(max(x + width, max(x, 0) + 1), 80), min(max(y + height, max(y, 0) + 1), 60))
    )
    measured = (80 * reduced, 60 * reduced)
    box = Box(x * reduced, y * reduced, width * reduced, height * reduced, measured if reduced > 1 else None)
    np.testing.assert_array_equal(decode(Picture("a", "c", np.asarray(image), box), 24), by_hand(cut, 24))


TURNS = ["FLIP_LEFT_RIGHT", "ROTATE_180", "FLIP_TOP_BOTTOM", "TRANSPOSE", "ROTATE_90", "TRANSVERSE", "ROTATE_270"]
"""How a picture was stored, by the values of the tag from 2 on; 1: as it is."""


@pytest.mark.parametrize("suffix", ["png", "jpg"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation(tmp_path: Path, orientation: int, suffix: str) -> None:
    """The tag says how the stored picture was turned; undone, every file shows the same scene."""
    scene = Image.new("RGB", (48, 32), "white")
    scene.paste("red", (0, 0, 24, 16))  # left top
    scene.paste("blue", (24, 16, 48, 32))  # right bottom
    image = scene.transpose(Image.Transpose[TURNS[orientation - 2]]) if orientation > 1 else scene
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = tmp_path / f"a.{suffix}"
    image.save(path, exif=exif, **({"quality": 95, "subsampling": 0} if suffix == "jpg" else {}))
    got = decode(Picture("a", "c", str(path)), 16).astype(int)
    assert np.abs(got[:, 3, 3] - (255, 0, 0)).max() < 30
    assert np.abs(got[:, 12, 12] - (0, 0, 255)).max() < 30
    assert np.abs(got[:, 3, 12] - (255, 255, 255)).max() < 30


@pytest.mark.parametrize("mode", ["L", "P", "RGBA", "1", "CMYK", "LA"])
def test_every_mode_becomes_rgb(tmp_path: Path, mode: str) -> None:
    image = noisy(20, 20).convert(mode)
    path = tmp_path / ("a.tif" if mode == "CMYK" else "a.png")
    image.save(path)
    np.testing.assert_array_equal(decode(Picture("a", "c", str(path)), 20), by_hand(image.convert("RGB"), 20))


@pytest.mark.parametrize(
    ("image", "suffix", "options"),
    [
        (Image.new("RGBA", (8, 8), (255, 0, 0, 0)), "png", {}),
        (Image.new("RGBA", (8, 8), (255, 0, 0, 0)), "webp", {"lossless": True}),
        (Image.new("LA", (8, 8), (0, 0)), "png", {}),
        (Image.new("P", (8, 8), 0), "gif", {"transparency": 0}),
        (Image.new("P", (8, 8), 0), "png", {"transparency": b"\0"}),
        (Image.new("L", (8, 8), 0), "png", {"transparency": 0}),
        (Image.new("RGB", (8, 8), 0), "png", {"transparency": (0, 0, 0)}),
        (Image.new("1", (8, 8), 0), "png", {"transparency": 0}),
    ],
)
def test_transparent_pictures_are_laid_on_white(tmp_path: Path, image: Image.Image, suffix: str, options: dict) -> None:
    file = tmp_path / f"a.{suffix}"
    image.save(file, **options)
    assert decode(Picture("a", "", str(file)), 8).min() == 255
    assert np.asarray(Image.open(BytesIO(shrunk(file.read_bytes(), 96)[0]))).min() == 255


def test_large_jpeg_reduced_while_decoding_stays_near(tmp_path: Path) -> None:
    coarse = noisy(6, 5).resize((1200, 900), Image.Resampling.BICUBIC)
    coarse.save(tmp_path / "a.jpg", quality=95)
    plain = np.asarray(Image.open(tmp_path / "a.jpg").convert("RGB"))
    for box in (None, Box(300, 200, 700, 600)):
        fast = decode(Picture("a", "c", str(tmp_path / "a.jpg"), box), 84).astype(int)
        slow = decode(Picture("a", "c", plain, box), 84).astype(int)
        assert np.abs(fast - slow).mean() < 1.5
    small_box = Box(500, 400, 100, 90)  # the box, not the picture, must stay twice the target: no reduction here
    fast, slow = (decode(Picture("a", "c", content, small_box), 84) for content in (str(tmp_path / "a.jpg"), plain))
    np.testing.assert_array_equal(fast, slow)


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_bombs_and_programs_are_refused(tmp_path: Path) -> None:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    for side in (12_000, 100_000):  # past pillow's warning, past pillow's error
        header = chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0))
        path = tmp_path / f"bomb{side}.png"
        path.write_bytes(
            b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(bytes(100))) + chunk(b"IEND", b"")
        )
        with pytest.raises((ValueError, Image.DecompressionBombError), match="pixels"):
            decode(Picture("a", "c", str(path)), 84)
    (tmp_path / "a.jpg").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n")
    with pytest.raises(UnreadablePicture, match="no picture"):
        decode(Picture("a", "c", str(tmp_path / "a.jpg")), 84)


GREY = np.linspace(0, 1, 32 * 32).reshape(32, 32)


@pytest.mark.parametrize(
    ("values", "suffix", "mode"),
    [
        ((GREY * 65535).astype(np.uint16), "png", "I;16"),
        ((GREY * 65535).astype(">u2"), "tif", "I;16B"),
        ((GREY * 65535).astype(np.int32), "ppm", "I"),
    ],
)
def test_deep_grey_is_scaled_and_not_cut(tmp_path: Path, values: np.ndarray, suffix: str, mode: str) -> None:
    path = tmp_path / f"a.{suffix}"
    Image.frombuffer(mode, (32, 32), values.tobytes(), "raw", mode, 0, 1).save(path)
    with Image.open(path) as stored:
        assert stored.mode == mode
    expected = np.floor(values.astype(np.float64) / 65535 * 255 + 0.5)
    got = decode(Picture("a", "c", str(path)), 32)
    assert np.array_equal(got, np.broadcast_to(expected, got.shape))
    assert (got.min(), got.max()) == (0, 255)
    part = decode(Picture("a", "c", str(path), Box(0, 0, 32, 8)), 32)
    assert part.max() < 70


@pytest.mark.parametrize("kind", [np.int32, np.float32])
def test_values_whose_white_is_unknown_are_refused(tmp_path: Path, kind: type) -> None:
    Image.fromarray((GREY * 255).astype(kind)).save(tmp_path / "a.tif")
    with pytest.raises(ValueError, match="save it with 8 or 16 bits"):
        decode(Picture("a", "c", str(tmp_path / "a.tif")), 16)


@pytest.mark.parametrize(
    ("said", "taken"), [("2019:05:31 12:00:00", "2019:05:31 12:00:00"), ("last summer", ""), ("", ""), (None, "")]
)
def test_when_a_picture_was_taken(said, taken):
    day, out = Image.Exif(), BytesIO()
    if said is not None:
        day.get_ifd(0x8769)[0x9003] = said  # DateTimeOriginal
    Image.new("RGB", (4, 4)).save(out, "JPEG", exif=day)
    assert taken_at(out.getvalue()) == taken
    assert taken_at(b"no picture") == ""
