"""Graphs in the user's cache folder: the same features without torch, and never a wrong file."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from protoadapt.vision import networks
from protoadapt.vision.embed import embed
from protoadapt.vision.feature_store import Store
from protoadapt.vision.file_embedding import embed_files
from protoadapt.vision.networks import graph_cache
from protoadapt.vision.networks.engines import AGREE
from protoadapt.vision.networks.onnx_engine import OnnxEngine


@pytest.fixture
def kept(model, tmp_path, monkeypatch) -> Path:
    """The file of the tiny network's graph, in a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert not isinstance(networks.load_for_files(model)[0], OnnxEngine)  # the first time, torch writes it
    [file] = graph_cache.folder().iterdir()
    return file


def test_the_second_time_a_network_is_its_graph(kept, model):
    engine, metadata = networks.load_for_files(model)
    assert isinstance(engine, OnnxEngine)
    own = networks.load(model)[1]
    assert {key: own[key] for key in metadata} == metadata
    assert {"weights", "size", "mean", "std", "model", "trained_on", "calibration", "engine"} <= metadata.keys()


def test_features_are_torchs(kept, model, tmp_path, paint):
    files = [str(tmp_path / f"{seed}.png") for seed in range(5)]
    for seed, file in enumerate(files):
        paint(Path(file), "red", seed)
    rows = []
    for network, metadata in (networks.load_for_files(model), networks.load(model, engine="torch")):
        store = Store(None, metadata["weights"], metadata["size"])
        contents, _ = embed_files(files, network, metadata, store)
        rows.append(torch.from_numpy(store.rows(contents)))
    assert torch.cosine_similarity(*rows).min() >= AGREE
    torch.testing.assert_close(*rows, rtol=1e-4, atol=1e-5)


def damaged(content: bytes, how: str) -> bytes:
    header, _, graph = content.partition(b"\n")
    values = json.loads(header)
    match how:
        case "empty":
            return b""
        case "cut":
            return content[:-7]
        case "one byte":
            return content[:-7] + bytes([content[-7] ^ 1]) + content[-6:]
        case "no header":
            return graph
        case "foreign":
            return b"\x89PNG\r\n\x1a\n" + bytes(100)
        case "older version":
            values["versions"]["protoadapt"] = "0.0.1"
        case "other onnxruntime":
            values["versions"]["onnxruntime"] = "1.0"
        case "other weights":
            values["metadata"]["weights"] = "0" * 16
        case "other size":
            values["metadata"]["size"] += 8
        case "no size":
            del values["metadata"]["size"]
        case "a list":
            values = [values]
    return json.dumps(values).encode() + b"\n" + graph


HOW = ["empty", "cut", "one byte", "no header", "foreign", "older version", "other onnxruntime", "other weights"]


@pytest.mark.parametrize("how", [*HOW, "other size", "no size", "a list"])
def test_a_wrong_file_is_recognised_and_made_again(kept, model, how):
    right = kept.read_bytes()
    kept.write_bytes(damaged(right, how))
    assert not isinstance(networks.load_for_files(model)[0], OnnxEngine)
    assert kept.read_bytes() == right
    assert isinstance(networks.load_for_files(model)[0], OnnxEngine)


def test_without_room_or_permission_the_network_works_all_the_same(model, tmp_path, monkeypatch):
    (tmp_path / "protoadapt").write_text("a file where the folder would be")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for _ in range(2):
        network, metadata = networks.load_for_files(model)
        rows = embed(network, metadata, np.zeros((1, 3, 24, 24), np.uint8))
        assert rows.isfinite().all()


def test_a_graph_that_disagrees_with_torch_is_not_kept(model, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    right = OnnxEngine.maps
    monkeypatch.setattr(OnnxEngine, "maps", lambda self, picture: right(self, picture)[:, ::-1].copy())
    assert networks.load(model)[1]["engine"] == "torch"
    assert not graph_cache.folder().exists()


def test_so_many_networks_are_kept(kept, monkeypatch, model):
    monkeypatch.setattr(graph_cache, "MOST", 2)
    for number in range(3):
        other = kept.with_name(f"{number}.graph")
        other.write_bytes(b"")
        os.utime(other, (number, number))
    kept.unlink()
    networks.load(model)
    assert sorted(path.name for path in graph_cache.folder().iterdir()) == sorted([kept.name, "2.graph"])


@pytest.mark.parametrize("what", ["a pipe", "an endless device", "a loop of links", "an empty folder"])
def test_what_is_no_file_is_neither_read_nor_left(kept, model, what):
    kept.unlink()
    if what == "a pipe":
        os.mkfifo(kept)
    elif what == "an empty folder":
        kept.mkdir()
    else:
        kept.symlink_to("/dev/zero" if what == "an endless device" else kept)
    assert not isinstance(networks.load_for_files(model)[0], OnnxEngine)
    assert isinstance(networks.load_for_files(model)[0], OnnxEngine)
    assert kept.is_file()
    assert not kept.is_symlink()


def test_a_folder_that_holds_something_is_left_and_said_once(kept, model):
    kept.unlink()
    kept.mkdir()
    (kept / "mine.txt").write_text("notes")
    with pytest.warns(UserWarning, match="is where a network is kept for a quick start: remove it") as said:
        assert not isinstance(networks.load_for_files(model)[0], OnnxEngine)
    assert len(said) == 1
    assert (kept / "mine.txt").read_text() == "notes"


def test_a_file_too_large_is_not_read(kept, model):
    right = kept.read_bytes()
    with open(kept, "wb") as file:
        file.truncate(1 << 40)  # sparse
    assert not isinstance(networks.load_for_files(model)[0], OnnxEngine)
    assert kept.read_bytes() == right


def test_a_folder_among_the_oldest_does_not_keep_others(kept, model, monkeypatch):
    monkeypatch.setattr(graph_cache, "MOST", 1)
    for number, make in enumerate((Path.mkdir, lambda link: link.symlink_to("nowhere"), Path.touch)):
        other = kept.with_name(f"{number}.graph")
        make(other)
        os.utime(other, (number, number), follow_symlinks=False)
    kept.unlink()
    networks.load(model)
    assert [path.name for path in graph_cache.folder().iterdir()] == [kept.name]


@pytest.mark.parametrize(("stated", "threads"), [("2,1", 2), ("1", 1), ("abc", 4), ("0", 4), ("", 4), ("100000", 4)])
def test_threads_are_as_many_as_asked_for_where_that_is_a_number(monkeypatch, stated, threads):
    monkeypatch.setenv("OMP_NUM_THREADS", stated)
    monkeypatch.setattr(graph_cache, "cores", lambda: 4)
    assert graph_cache._threads() == threads


def test_a_relative_cache_folder_is_ignored(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "here")
    assert graph_cache.folder() == Path.home() / ".cache" / "protoadapt" / "networks"
