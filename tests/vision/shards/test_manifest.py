"""Manifests: every picture once, in an order that all machines share, in memory that does not grow."""

import io
import json
import os
import re
import tarfile
import tracemalloc

import pytest

from protoadapt import UserError
from protoadapt.vision.pictures.formats import UnreadablePicture
from protoadapt.vision.pictures.read import read_entry
from protoadapt.vision.pictures.walk import Entry, find
from protoadapt.vision.shards.manifest import load_manifest, write_manifest

ODD = [b"plain.jpg", b"line\nbreak.png", b"caf\xe9 \xff.jpg", "日本.webp".encode(), b"a.jpg", b"quote\"'.PNG"]


def rows(manifest):
    return [entry for number in range(len(manifest.shards)) for entry in manifest.read(number)]


@pytest.fixture
def tree(tmp_path):
    """Folders whose names sort differently with and without a slash, and names that are hard to write down."""
    root = os.fsencode(tmp_path / "tree")
    for folder in (b"", b"a", b"a.b", b"a/deep/er", b"a-b", b".hidden"):
        os.makedirs(os.path.join(root, folder), exist_ok=True)
        for name in ODD + [b"notes.txt", b".hidden.jpg"]:
            with open(os.path.join(root, folder, name), "wb") as file:
                file.write(folder + name)
    os.symlink(root, os.path.join(root, b"ring"))
    return tmp_path / "tree"


def expected(tree):
    """Every picture's path as bytes, in order, the slow way."""
    root = os.fsencode(tree)
    found = []
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith(b".")]
        found += [os.path.relpath(os.path.join(folder, f), root) for f in files if not f.startswith(b".")]
    return sorted(path for path in found if not path.endswith(b".txt"))


def test_a_tree_is_listed_in_the_order_of_its_paths(tree, tmp_path):
    manifest = write_manifest(tmp_path / "m.jsonl", *find([tree]), shard_size=4)
    found = rows(manifest)
    assert [os.fsencode(entry.path) for entry in found] == expected(tree)
    assert all(entry.size == os.path.getsize(os.path.join(tree, entry.path)) for entry in found)
    assert [shard.pictures for shard in manifest.shards] == [4] * 7 + [2]
    assert manifest.pictures == 30


def test_two_manifests_of_one_tree_are_the_same_and_say_when_a_picture_changes(tree, tmp_path):
    first = write_manifest(tmp_path / "1.jsonl", *find([tree]), shard_size=4)
    second = write_manifest(tmp_path / "2.jsonl", *find([tree]), shard_size=4)
    assert first.sha256 == second.sha256
    assert (tmp_path / "1.jsonl").read_bytes() == (tmp_path / "2.jsonl").read_bytes()
    (tree / "a" / "plain.jpg").write_bytes(b"longer than before")
    third = write_manifest(tmp_path / "3.jsonl", *find([tree]), shard_size=4)
    changed = [a.sha256 != b.sha256 for a, b in zip(first.shards, third.shards)]
    assert sum(changed) == 1
    assert third.sha256 != first.sha256


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\0"])
def test_lists(tree, tmp_path, end):
    paths = [path for path in expected(tree) if end == b"\0" or b"\n" not in path]
    paths += [b"is/not/there.jpg", os.fsencode(tree / "a.jpg")]
    (tree / "list").write_bytes(end.join(paths) + end)
    found = rows(write_manifest(tmp_path / "m.jsonl", *find([tree / "list"])))
    assert [os.fsencode(entry.path) for entry in found] == paths
    assert [entry.size for entry in found[-2:]] == [-1, 5]


def test_what_is_no_list_is_said(tree, tmp_path):
    (tmp_path / "wide").write_bytes("a.jpg\n".encode("utf-16"))
    for path, said in ((tree / "a.jpg", "is no list"), (tmp_path / "wide", "UTF-16"), (tmp_path / "no", "not there")):
        with pytest.raises(UserError, match=said):
            list(find([path])[1])
    (tree / "marked").write_bytes(b"\xef\xbb\xbfa.jpg\n")
    assert [(entry.name, entry.size > 0) for entry in find([tree / "marked"])[1]] == [("a.jpg", True)]


@pytest.mark.parametrize("lines", [b"file,label\na.jpg,x\n", b'"a.jpg"\n', b"a.jpg\ra.jpg\r", b".\n..\n/\n"])
def test_a_list_that_names_no_file_leaves_no_manifest(tree, tmp_path, lines):
    (tree / "list").write_bytes(lines)
    with pytest.raises(UserError, match="one name per line"):
        write_manifest(tmp_path / "m.jsonl", *find([tree / "list"]))
    assert not (tmp_path / "m.jsonl").exists()


def test_tar_members_lie_where_the_manifest_says(tmp_path):
    for number in range(2):
        with tarfile.open(tmp_path / f"{number}.tar", "w") as tar:
            for name in ("x/é.jpg", "y.cls", "z" * 120 + ".png"):
                data = f"{number}{name}".encode()
                info = tarfile.TarInfo(name)
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    found = rows(write_manifest(tmp_path / "m.jsonl", *find([tmp_path / "0.tar", tmp_path / "1.tar"])))
    assert [entry.name for entry in found] == [
        f"{n}.tar/{name}" for n in "01" for name in ("x/é.jpg", "z" * 120 + ".png")
    ]
    for entry in found:
        data = (tmp_path / entry.path).read_bytes()[entry.offset : entry.offset + entry.size]
        assert data == f"{entry.path[0]}{entry.member}".encode()


def test_a_cut_tar_a_compressed_one_and_none_at_all_are_said(tmp_path):
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        info = tarfile.TarInfo("x.jpg")
        info.size = 5000
        tar.addfile(info, io.BytesIO(bytes(5000)))
    (tmp_path / "cut.tar").write_bytes((tmp_path / "a.tar").read_bytes()[:3000])
    with pytest.raises(UserError, match="truncated"):
        write_manifest(tmp_path / "m.jsonl", *find([tmp_path / "cut.tar"]))
    assert not (tmp_path / "m.jsonl").exists()
    (tmp_path / "b.tar.gz").write_bytes(b"x")
    with pytest.raises(UserError, match="unpack it first"):
        find([tmp_path / "b.tar.gz"])
    with pytest.raises(UserError, match="is not there"):
        find([tmp_path / "missing"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="no picture"):
        write_manifest(tmp_path / "m.jsonl", *find([tmp_path / "empty"]))


def test_every_cut_or_change_of_a_manifest_is_found(tree, tmp_path):
    path = tmp_path / "m.jsonl"
    write_manifest(path, *find([tree]), shard_size=4)
    whole = path.read_bytes()
    nowhere = re.sub(rb'("shards":\[\[\d+,)\d+', rb"\1[7]", whole)
    for damaged in (*(whole[:size] for size in (0, 1, 50, len(whole) // 2, len(whole) - 20)), nowhere):
        path.write_bytes(damaged)
        with pytest.raises(UserError, match="truncated or not a manifest"):
            load_manifest(path)
    path.write_bytes(whole.replace(b"plain", b"pla1n", 1))
    with pytest.raises(UserError, match="was changed"):
        rows(load_manifest(path))
    path.write_text(json.dumps({"hello": 1}) + "\n")
    with pytest.raises(UserError, match="not a manifest"):
        load_manifest(path)


def test_memory_does_not_grow_with_the_pictures(tmp_path):
    def peak(count):
        tracemalloc.start()
        write_manifest(tmp_path / "m.jsonl", tmp_path, (Entry(f"folder/{i:09d}.jpg", i) for i in range(count)), 100)
        top = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return top

    peak(1000)
    small, large = peak(2_000), peak(20_000)
    assert large - small < 180 * 500 + 2**16  # half a kilobyte a shard of the index, nothing a picture


def test_pipes_are_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "p.jpg")
    os.mkfifo(tmp_path / "p.tar")
    for pipe in ("p.jpg", "p.tar"):
        with pytest.raises(UserError, match="a pipe or a device"):
            find([tmp_path / pipe])
    (tmp_path / "list.txt").write_text("p.jpg\n")
    root, entries = find([tmp_path / "list.txt"])
    with pytest.raises(UnreadablePicture, match="no ordinary file"):
        read_entry(root, next(entries))
