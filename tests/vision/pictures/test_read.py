"""One walker, one reader, one set of formats: what is found in a folder, how it is read, what is refused."""

import errno
import io
import os
from collections import Counter

import numpy as np
import pytest
from helpers.small_pictures import HEIC
from PIL import Image

from protoadapt.core.errors import UserError
from protoadapt.training.datasets.layouts import folder_files
from protoadapt.vision.pictures import decode, formats
from protoadapt.vision.pictures import read as reading
from protoadapt.vision.pictures.decode import Picture
from protoadapt.vision.pictures.decode import decode as decode_picture
from protoadapt.vision.pictures.decode import decode_bytes as pixels
from protoadapt.vision.pictures.read import read_entry, read_file
from protoadapt.vision.pictures.walk import Entry, find, find_pictures, no_pictures


def saved(image, kind, **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def half(first, second, size=(40, 40)):
    """The left half of one colour, the right of another."""
    image = Image.new("RGB", size, first)
    image.paste(second, (size[0] // 2, 0, *size))
    return image


def relative(found, root):
    return [os.path.relpath(file, root) for file in found.files]


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF"])
def test_every_format_gives_the_same_picture(kind):
    seen = pixels(saved(half("red", "blue"), kind), 16).astype(int)
    expected = pixels(saved(half("red", "blue"), "BMP"), 16).astype(int)
    assert np.abs(seen - expected).mean() < 6


def test_what_is_no_picture_is_said_in_words():
    for content, words in ((b"", "empty"), (b"hello", "no picture"), (b"%!PS-Adobe-3.0 EPSF", "no picture")):
        with pytest.raises(Exception) as error:  # noqa: PT011
            pixels(content, 16)
        assert words in formats.reason(error.value, "a.png")
        assert "0x" not in formats.reason(error.value, "a.png")


def test_heic_asks_for_its_plugin_and_is_read_with_it(heic_plugin):
    with pytest.raises(ValueError, match=r"pillow-heif: pip install -c constraints.txt '\.\[label\]'"):
        pixels(HEIC, 16)
    heic_plugin()
    assert pixels(HEIC, 8)[:, 4, 4].tolist() == [0, 255, 0]
    assert formats.readable() == tuple(formats.FORMATS)


def test_pictures_are_found_at_any_depth_and_nothing_else(tmp_path, paint):
    for name in ("b.png", "a/c.JPG", "a/d e/ü.webp", "-x.gif", ".hidden.png", ".git/e.png", "new\nline.png"):
        paint(tmp_path / name, "red")
    (tmp_path / "notes.txt").write_text("no picture")
    (tmp_path / "phone.HEIC").write_bytes(HEIC)
    expected = ["-x.gif", "a/c.JPG", "a/d e/ü.webp", "b.png", "new\nline.png", "phone.HEIC"]
    assert relative(find_pictures(tmp_path), tmp_path) == expected


def test_what_is_not_taken_for_a_picture_is_counted(tmp_path, paint):
    paint(tmp_path / "a.jpg", "red").rename(tmp_path / "a.jfif")
    for name in ("b.jxl", "deep/c.JXL", "deep/d", ".hidden.jxl"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    found = find_pictures(tmp_path)
    assert relative(found, tmp_path) == ["a.jfif"]
    why = "3 files without the suffix of a picture: 2 .jxl, 1 without any"
    assert found.skipped == [(str(tmp_path), why)]
    others: Counter[str] = Counter()
    assert [entry.path for entry in find([tmp_path], others)[1]] == ["a.jfif"]
    assert no_pictures(others) == why


def test_links_to_pictures_are_followed_and_links_to_folders_listed(tmp_path, paint):
    elsewhere = paint(tmp_path / "elsewhere" / "x.png", "red")
    root = tmp_path / "images"
    paint(root / "a.png", "red")
    (root / "linked.png").symlink_to(elsewhere)
    (root / "gone.png").symlink_to(tmp_path / "nothing")
    (root / "loop").symlink_to(root)
    (root / "disk").symlink_to("/")
    found = find_pictures(root)
    assert relative(found, root) == ["a.png", "linked.png"]
    reasons = {os.path.basename(one.file): one.reason for one in found.skipped}
    assert sorted(reasons) == ["disk", "gone.png", "loop"]
    assert "missing file" in reasons["gone.png"]
    assert "link to a folder" in reasons["loop"]
    assert read_file(str(root / "linked.png")) == elsewhere.read_bytes()
    with pytest.raises(OSError, match="No such file"):
        read_file(str(root / "gone.png"))


def test_what_is_no_ordinary_file_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe.png")  # opening it would wait for ever
    (tmp_path / "zero.png").symlink_to("/dev/zero")
    listing = find_pictures(tmp_path)
    assert not listing.files
    assert [one.reason for one in listing.skipped] == ["not an ordinary file"] * 2
    for name in ("pipe.png", "zero.png"):
        with pytest.raises(ValueError, match="ordinary"):
            read_file(str(tmp_path / name))


def test_output_folders_are_left_alone(tmp_path, paint):
    paint(tmp_path / "a.png", "red")
    for name in ("now", "earlier"):
        paint(tmp_path / name / "sorted" / "red" / "a.png", "red")
    for name in ("labels.json", "classifier.safetensors"):
        (tmp_path / "earlier" / name).write_text("")
    assert relative(find_pictures(tmp_path, leave=[tmp_path / "now"]), tmp_path) == ["a.png"]
    assert relative(find_pictures(tmp_path), tmp_path) == ["a.png", "now/sorted/red/a.png"]


def test_large_pictures_are_decoded_one_after_the_other(monkeypatch):
    monkeypatch.setattr(decode, "LARGE_PICTURE", 99)
    for image, alone in (
        (Image.new("L", (10, 10)), True),
        (Image.new("L", (9, 10)), False),
        (Image.open(io.BytesIO(saved(half("red", "blue"), "JPEG"))), False),  # decoded at a fraction of its size
        (Image.open(io.BytesIO(saved(half("red", "blue"), "JPEG", progressive=True))), True),
    ):
        assert (decode._turn(image) is decode._large) == alone


def test_every_command_finds_and_reads_the_same_pictures(tmp_path, paint, monkeypatch):
    """A folder to label, a manifest and class folders of a dataset: one set of suffixes, formats and limits."""
    for name in ("b.png", "c.JPG", "d.webp", "e.tiff", ".hidden.png"):
        paint(tmp_path / "class" / name, "red")
    (tmp_path / "class" / "phone.HEIC").write_bytes(HEIC)
    (tmp_path / "class" / "notes.txt").write_text("no picture")
    listing = find_pictures(tmp_path).files
    assert [os.path.join(tmp_path, entry.path) for entry in find([tmp_path])[1]] == listing
    assert [name for name, _ in sorted(folder_files(tmp_path, "class", "class"))] == [
        os.path.relpath(file, tmp_path) for file in listing
    ]
    assert len(listing) == 5
    monkeypatch.setattr(reading, "MAX_BYTES", 100)
    (tmp_path / "large.png").write_bytes(bytes(101))
    for attempt in (
        lambda: decode_picture(Picture("", "", str(tmp_path / "large.png")), 16),
        lambda: read_entry(tmp_path, Entry("large.png", 101)),
    ):
        with pytest.raises(formats.UnreadablePicture, match="it is larger than 0 MB"):
            attempt()


def test_a_transient_error_is_tried_again_and_stops_a_manifest(tmp_path, paint, monkeypatch):
    file = paint(tmp_path / "a.png", "red")
    expected = file.read_bytes()
    failures, real = [OSError(errno.EIO, "away")] * 2, open

    def flaky(*arguments, **options):
        if failures:
            raise failures.pop()
        return real(*arguments, **options)

    monkeypatch.setattr("builtins.open", flaky)
    assert read_file(str(file)) == expected
    assert not failures
    failures += [OSError(errno.EIO, "away")] * 3
    with pytest.raises(OSError, match="away"):
        read_entry(tmp_path, Entry("a.png", file.stat().st_size))
    failures += [OSError(errno.EACCES, "secret")]
    with pytest.raises(formats.UnreadablePicture, match="Permission denied"):
        read_entry(tmp_path, Entry("a.png", file.stat().st_size))


def test_a_drive_that_is_away_is_no_fault_of_its_pictures(tmp_path):
    with pytest.raises(UserError, match="is not there now"):
        read_entry(tmp_path / "away", Entry("a.png", 10))
    with pytest.raises(formats.UnreadablePicture):
        read_entry(tmp_path, Entry("a.png", 10))


def test_only_with_memory_left_a_failed_decoder_is_the_files_fault(monkeypatch):
    assert formats.reason(MemoryError(), "a.png") == "it is truncated or damaged (MemoryError)"
    monkeypatch.setattr(formats, "MAX_PIXELS", 1 << 60)  # more than any machine has
    for error in (MemoryError(), OSError("broken data stream when reading image file")):
        with pytest.raises(UserError, match=r"not enough memory to decode 'a.png': .* run the same command again"):
            formats.reason(error, "a.png")
    assert formats.reason(formats.UnreadablePicture("it is an empty file"), "") == "it is an empty file"


def test_a_picture_that_fails_for_a_moment_is_decoded(monkeypatch):
    content, failures, real = saved(half("red", "blue"), "PNG"), [MemoryError()], decode._pixels

    def short(*arguments):
        if failures:
            raise failures.pop()
        return real(*arguments)

    monkeypatch.setattr(decode, "_pixels", short)
    assert decode.decode_bytes(content, 8)[:, 0, 0].tolist() == [255, 0, 0]


def test_a_folder_that_cannot_be_opened_is_listed_or_an_error(tmp_path, paint, monkeypatch):
    paint(tmp_path / "a.png", "red")
    paint(tmp_path / "closed" / "b.png", "red")
    real = os.scandir

    def refusing(path):
        if os.fsencode(path).rstrip(b"/").endswith(b"closed"):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return real(path)

    monkeypatch.setattr(os, "scandir", refusing)
    listing = find_pictures(tmp_path)
    assert [os.path.basename(file) for file in listing.files] == ["a.png"]
    assert [(os.path.basename(one.file), one.reason) for one in listing.skipped] == [("closed", "permission denied")]
    with pytest.raises(UserError, match=r"closed.* cannot be opened"):
        list(find([tmp_path])[1])
