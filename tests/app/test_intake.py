"""Uploads → pictures: what cannot be used is said, what is known is not computed again, nothing but pixels is kept."""

import hashlib
import struct
from io import BytesIO

import numpy as np
import pytest
from PIL import Image
from torch import nn

from protoadapt.app.intake import LARGE, SMALL, Limits, Upload, read_uploads
from protoadapt.vision.embed import embed
from protoadapt.vision.pictures.decode import decode_bytes

LIMITS = Limits(bytes=60_000, pictures=50)


BOMB = b"BM" + struct.pack("<IHHIIiiHH6I", 54, 0, 0, 54, 40, 50_000, 50_000, 1, 24, *[0] * 6)
"""A bitmap of a few dozen bytes that claims to be 50,000 × 50,000 pixels."""


@pytest.fixture
def take(loaded):
    """take(uploads, known=(), room=50): what read_uploads returns, and the copies it kept by content."""

    def read(uploads, known=(), room=50, network=loaded[0]):
        kept = {}
        return *read_uploads(uploads, known, room, network, loaded[1], LIMITS, kept.__setitem__), kept

    return read


def test_a_picture_has_its_content_features_and_two_copies(take, painted, loaded):
    network, metadata = loaded
    (picture,), _, skipped, kept = take([Upload("a/b.png", painted("red"))])
    assert (picture.name, picture.key, skipped) == ("a/b.png", hashlib.sha256(painted("red")).hexdigest(), [])
    expected = embed(network, metadata, decode_bytes(painted("red"), metadata["size"])[None]).numpy()[0]
    np.testing.assert_array_equal(picture.feature, expected)
    assert [Image.open(BytesIO(copy)).size for copy in kept[picture.key]] == [(30, 26)] * 2


def test_copies_are_small_upright_and_hold_nothing_but_pixels(take):
    exif = Image.Exif()
    exif[0x0112], exif[0x010E] = 6, "Mrs Example, born 1950"
    out = BytesIO()
    photo = Image.effect_noise((400, 300), 80).convert("RGB")
    photo.save(out, "JPEG", exif=exif, comment=b"Mrs Example", icc_profile=b"Mrs Example's screen", quality=60)
    (picture,), _, _, kept = take([Upload("a.jpg", out.getvalue())])
    for side, copy in zip((LARGE, SMALL), kept[picture.key]):
        image = Image.open(BytesIO(copy))
        assert image.size == ((300, 400) if side == LARGE else (144, 192)), "upright"
        assert b"Example" not in copy
        assert not image.info.keys() & {"comment", "exif", "icc_profile", "xmp"}


def test_what_cannot_be_used_is_said_and_the_rest_is_kept(take, painted):
    given = [
        Upload("notes.png", b"no picture at all"),
        Upload("empty.jpg", b""),
        Upload("bomb.bmp", BOMB),
        Upload("cut.png", painted("red")[:300]),
        Upload("large.png", painted("red") + b"\0" * 100_000),
        Upload("good.png", painted("blue")),
    ]
    (good,), contents, skipped, kept = take(given)
    assert (good.name, contents, list(kept)) == ("good.png", [None] * 5 + [good.key], [good.key])
    reasons = dict(skipped)
    assert set(reasons) == {"notes.png", "empty.jpg", "bomb.bmp", "cut.png", "large.png"}
    assert "no picture of a known kind" in reasons["notes.png"]
    assert "pixels" in reasons["bomb.bmp"]
    assert "MB; the limit is" in reasons["large.png"]


def test_room_is_counted_in_new_pictures(take, painted):
    files = [Upload(f"{i}.png", painted("red", i)) for i in range(4)]
    known = {hashlib.sha256(files[0].content).hexdigest()}
    new, contents, skipped, _ = take(files, known, room=2)
    assert [one.name for one in new] == ["1.png", "2.png"]
    assert contents == [*known, *(one.key for one in new), None]
    full = "a board holds at most 50 pictures, and all boards of this server 10 times as many"
    assert [(one.file, one.reason) for one in skipped] == [("3.png", full)]


def test_what_the_board_knows_is_not_computed_again(take, painted):
    class Unasked(nn.Module):
        def forward(self, x):
            raise AssertionError("the network was asked")

    known = hashlib.sha256(painted("red")).hexdigest()
    *found, kept = take([Upload("b.png", painted("red"))], {known}, network=Unasked())
    assert (found, list(kept)) == ([[], [known], []], [known]), "but its copies are made again"
