"""What is cached is what was decoded, whole, or it is not there."""

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers.small_pictures import HEIC, painted
from PIL import Image

from protoadapt.core.errors import UserError
from protoadapt.training.datasets import load_images
from protoadapt.vision.pictures import split
from protoadapt.vision.pictures.split import Images


def loaded(folder: Path, **more: object) -> Images:
    return load_images("folder", "all", folder, **{"size": 16} | more)  # type: ignore[arg-type]


def entries(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / ".protoadapt-cache").iterdir() if path.suffix != ".json")


def entry(folder: Path) -> Path:
    (name,) = entries(folder)
    return folder / ".protoadapt-cache" / name


def assert_as_pillow_reads_them(images: Images, folder: Path) -> None:
    for row, path in enumerate(images.paths):
        want = Image.open(folder / path).resize((16, 16), Image.Resampling.BICUBIC)
        np.testing.assert_array_equal(images.pixels[row], np.asarray(want).transpose(2, 0, 1))


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the pictures that were decoded."""
    names: list[str] = []
    plain = split.decode
    monkeypatch.setattr(split, "decode", lambda picture, *how: (names.append(picture.name), plain(picture, *how))[1])
    return names


def test_decoded_once_then_read(mine: Path, counted: list[str]) -> None:
    first = loaded(mine)
    assert len(counted) == len(first) == 24
    again = loaded(mine)
    assert len(counted) == 24
    assert isinstance(again.pixels, np.memmap)
    assert not again.pixels.flags.writeable
    assert first.pixels.shape == (24, 3, 16, 16)
    assert first.labels.dtype == np.int64
    np.testing.assert_array_equal(first.pixels, again.pixels)
    np.testing.assert_array_equal(first.labels, np.repeat(np.arange(8), 3))
    assert (first.paths, first.class_names, first.skipped) == (again.paths, again.class_names, [])
    assert_as_pillow_reads_them(first, mine)


def test_a_changed_folder_is_decoded_anew(mine: Path) -> None:
    before = loaded(mine)
    painted(77).save(mine / "kind0" / "new.png")
    more = loaded(mine)
    assert len(more) == 25
    assert "kind0/new.png" in more.paths
    painted(5, 33, 44).save(mine / before.paths[0])  # another picture, another size in bytes
    assert not np.array_equal(loaded(mine).pixels[0], before.pixels[0])
    (mine / "kind7" / "kind7_000.png").rename(mine / "kind6" / "kind7_000.png")
    assert np.bincount(loaded(mine).labels).tolist() == [4, 3, 3, 3, 3, 3, 4, 2]


@pytest.mark.parametrize("harm", ["cut", "removed", "changed"])
@pytest.mark.parametrize("file", ["pixels", "index"])
def test_a_broken_entry_is_decoded_again(mine: Path, counted: list[str], file: str, harm: str) -> None:
    want = loaded(mine)
    pixels, path = np.array(want.pixels), entry(mine)
    path = path if file == "pixels" else path.with_name(f"{path.name}.json")
    if harm == "removed":
        path.unlink()
    elif harm == "changed":
        content = path.read_bytes()
        path.write_bytes(
            content.replace(b"[0, ", b"[1, ") if file == "index" else bytes([content[0] ^ 1]) + content[1:]
        )
    else:
        os.truncate(path, path.stat().st_size // 2)
    counted.clear()
    images = loaded(mine)
    assert len(counted) == 24
    np.testing.assert_array_equal(images.pixels, pixels)
    assert (images.labels.tolist(), images.paths) == (want.labels.tolist(), want.paths)


def test_a_class_of_unreadable_pictures_is_left_out(mine: Path) -> None:
    for file in (mine / "kind3").iterdir():
        file.write_bytes(b"broken")
    images = loaded(mine, on_corrupt="skip")
    assert images.class_names == [f"kind{i}" for i in range(8) if i != 3]
    assert [images.class_names[label] for label in images.labels] == [path.split("/")[0] for path in images.paths]


def break_some(folder: Path) -> set[str]:
    """Four pictures that cannot be read, each in its own way."""
    painted(1, 200, 200).save(folder / "kind1" / "cut.jpg", quality=90)
    os.truncate(folder / "kind1" / "cut.jpg", 900)
    (folder / "kind2" / "text.png").write_text("this is no picture")
    (folder / "kind2" / "empty.png").write_bytes(b"")
    content = bytearray((folder / "kind3" / "kind3_000.png").read_bytes())
    content[60] ^= 255
    (folder / "kind3" / "kind3_000.png").write_bytes(content)
    return {"kind1/cut.jpg", "kind2/text.png", "kind2/empty.png", "kind3/kind3_000.png"}


def test_corrupt_pictures(mine: Path) -> None:
    intact = loaded(mine)
    rows = dict(zip(intact.paths, np.array(intact.pixels)))
    bad = break_some(mine)
    with pytest.raises(UserError, match=r"cannot be read, kind\d/(cut|text|empty|kind3_000)"):
        loaded(mine)
    assert len(entries(mine)) == 1, "a failed decode leaves nothing"
    images = loaded(mine, on_corrupt="skip")
    assert {line.split(" ")[0] for line in images.skipped} == bad
    assert images.paths == [path for path in intact.paths if path not in bad]
    assert images.labels.tolist() == [int(path[4]) for path in images.paths]
    np.testing.assert_array_equal(images.pixels, np.stack([rows[path] for path in images.paths]))
    assert loaded(mine, on_corrupt="skip").skipped == images.skipped
    with pytest.raises(UserError, match="cannot be read"):  # cached by one who skips, asked for by one who does not
        loaded(mine)


def test_a_picture_skipped_for_want_of_a_plugin_is_read_once_it_is_installed(mine: Path, heic_plugin) -> None:
    (mine / "kind0" / "phone.heic").write_bytes(HEIC)
    assert [name.split()[0] for name in loaded(mine, on_corrupt="skip").skipped] == ["kind0/phone.heic"]
    before = entry(mine)
    heic_plugin()
    images = loaded(mine)
    assert len(images) == 25
    assert images.pixels[images.paths.index("kind0/phone.heic"), :, 8, 8].tolist() == [0, 255, 0]
    assert before.is_file()


KILLED = """
import sys, threading
from protoadapt.training.datasets import load_images
from protoadapt.vision.pictures import split
plain, done = split.decode, []
def slow(picture, *how):
    done.append(picture)
    if len(done) == 10:
        print("halfway", flush=True)
        threading.Event().wait()
    return plain(picture, *how)
split.decode = slow
load_images("folder", "all", sys.argv[1], size=16)
"""


def test_a_killed_decode_is_not_taken_for_complete(mine: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", KILLED, mine], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "halfway\n"
        assert entry(mine).name.endswith(".partial")
        os.kill(process.pid, signal.SIGKILL)
    images = loaded(mine)
    assert len(images) == 24
    assert_as_pillow_reads_them(images, mine)


def test_full_disk_and_unwritable_cache(mine: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        loaded(mine, cache_dir=tmp_path / "file" / "cache")

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))  # of 24 · 3 · 16 · 16 bytes
    try:
        with pytest.raises(UserError, match="make room on the disk"):
            loaded(mine)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert entries(mine) == []
