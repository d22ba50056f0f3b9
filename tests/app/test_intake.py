"""Uploads: what is no picture is listed with its reason, the rest is kept, nothing is computed twice."""

import hashlib
import struct
import zlib
from io import BytesIO

import numpy as np
import pytest
from PIL import Image
from torch import nn

from protoadapt.app.board import Board, add
from protoadapt.app.intake import Limits, Upload, read_uploads
from protoadapt.vision.embed import embed
from protoadapt.vision.pictures.decode import decode_bytes

LIMITS = Limits(bytes=100_000, pictures=50)


def bomb() -> bytes:
    """A PNG of a few dozen bytes that claims to be 50,000 × 50,000 pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 50_000, 50_000, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


@pytest.fixture
def upload(tmp_path):
    """upload("name", content): a file as it lies after an upload."""

    def put(name: str, content: bytes) -> Upload:
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}"
        path.write_bytes(content)
        return Upload(str(path), name)

    return put


def test_pictures_come_with_feature_and_thumbnail(upload, painted, loaded):
    network, metadata = loaded
    pictures, skipped = read_uploads([upload("a.png", painted("red"))], Board(), network, metadata, LIMITS)
    ((key, picture),) = pictures.items()
    assert key == hashlib.sha256(painted("red")).hexdigest()
    assert (picture.name, picture.label, skipped) == ("a.png", None, [])
    assert Image.open(BytesIO(picture.thumb)).size == (30, 26)
    expected = embed(network, metadata, decode_bytes(painted("red"), metadata["size"])[None]).numpy()[0]
    np.testing.assert_array_equal(picture.feature, expected)


def test_what_cannot_be_used_is_said_and_the_rest_is_kept(upload, painted, loaded):
    given = [
        upload("notes.png", b"no picture at all"),
        upload("empty.jpg", b""),
        upload("bomb.png", bomb()),
        upload("cut.png", painted("red")[:300]),
        upload("large.png", painted("red") + b"\0" * 100_000),
        Upload("/nowhere/gone.png", "gone.png"),
        upload("good.png", painted("blue")),
    ]
    pictures, skipped = read_uploads(given, Board(), *loaded, LIMITS)
    assert [picture.name for picture in pictures.values()] == ["good.png"]
    reasons = dict(skipped)
    assert set(reasons) == {"notes.png", "empty.jpg", "bomb.png", "cut.png", "large.png", "gone.png"}
    assert reasons["notes.png"].startswith("it is no picture of a known kind")
    assert "pixels" in reasons["bomb.png"]
    assert "MB; the limit is" in reasons["large.png"]
    assert "upload it again" in reasons["gone.png"]


def test_room_is_counted_in_new_pictures(upload, painted, loaded):
    limits = Limits(LIMITS.bytes, pictures=3)
    old, _ = read_uploads([upload(f"{i}.png", painted("red", i)) for i in range(2)], Board(), *loaded, limits)
    board = add(Board(), old)
    more = [upload(f"again {i}.png", painted("red", i)) for i in range(2)] + [
        upload(f"new {i}.png", painted("blue", i)) for i in range(2)
    ]
    pictures, skipped = read_uploads(more[1:], board, *loaded, limits)
    assert [picture.name for picture in add(board, pictures).pictures.values()] == ["0.png", "1.png", "new 0.png"]
    assert [one.file for one in skipped] == ["new 1.png"]
    assert [one.file for one in read_uploads(more, board, *loaded, limits)[1]] == ["new 1.png"], "unseen, unlooked at"


def test_what_the_board_knows_is_not_computed_again(upload, painted, loaded):
    _, metadata = loaded
    board = add(Board(), read_uploads([upload("a.png", painted("red"))], Board(), *loaded, LIMITS)[0], label="red")

    class Unasked(nn.Module):
        def forward(self, x):
            raise AssertionError("the network was asked")

    pictures, _ = read_uploads([upload("b.png", painted("red"))], board, Unasked(), metadata, LIMITS)
    assert add(board, pictures).pictures == board.pictures


def test_the_same_content_twice_in_a_drop_is_one_picture(upload, painted, loaded):
    pictures, skipped = read_uploads(
        [upload(name, painted("red")) for name in ("a.png", "b.png")], Board(), *loaded, LIMITS
    )
    assert [picture.name for picture in pictures.values()] == ["a.png"]
    assert not skipped
