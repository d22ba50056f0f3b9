"""Graphs in the user's cache folder: the same features without torch, and never a wrong file."""

from pathlib import Path

import pytest
import torch

from protoadapt.vision import networks
from protoadapt.vision.embed import embed_files
from protoadapt.vision.feature_store import Store
from protoadapt.vision.networks import onnx_engine
from protoadapt.vision.networks.engines import AGREE
from protoadapt.vision.networks.onnx_engine import OnnxEngine, graph_folder


@pytest.fixture
def kept(model, tmp_path, monkeypatch) -> Path:
    """The file of the tiny network's graph, in a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert not isinstance(networks.load_for_files(model)[0], OnnxEngine)  # the first time, torch writes it
    [file] = graph_folder().iterdir()
    return file


def test_the_second_time_a_network_is_its_graph(kept, model):
    engine, metadata = networks.load_for_files(model)
    assert isinstance(engine, OnnxEngine)
    own = networks.load(model)[1]
    assert {key: own[key] for key in metadata} == metadata
    assert {"weights", "size", "mean", "std", "model", "trained_on", "engine"} <= metadata.keys()


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


@pytest.mark.parametrize("how", ["empty", "cut", "foreign"])
def test_a_wrong_file_is_recognised_and_made_again(kept, model, how):
    right = kept.read_bytes()
    kept.write_bytes({"empty": b"", "cut": right[:-7], "foreign": b"\x89PNG\r\n\x1a\n" + bytes(100)}[how])
    assert not isinstance(networks.load_for_files(model)[0], OnnxEngine)
    assert kept.read_bytes() == right
    assert isinstance(networks.load_for_files(model)[0], OnnxEngine)


@pytest.mark.parametrize("what", ["protoadapt", "onnxruntime"])
def test_a_graph_of_another_version_is_not_read(kept, model, what, monkeypatch):
    monkeypatch.setattr(f"{what}.__version__", "0.0")
    assert not isinstance(networks.load_for_files(model)[0], OnnxEngine)
    assert isinstance(networks.load_for_files(model)[0], OnnxEngine)
    assert len(list(graph_folder().iterdir())) == 2


def test_a_graph_that_disagrees_with_torch_is_not_kept(model, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    right = OnnxEngine._maps
    monkeypatch.setattr(OnnxEngine, "_maps", lambda self, picture: right(self, picture)[:, ::-1].copy())
    assert networks.load(model)[1]["engine"] == "torch"
    assert not graph_folder().exists()


@pytest.mark.parametrize(("stated", "threads"), [("2,1", 2), ("1", 1), ("abc", 4), ("0", 4), ("", 4), ("100000", 4)])
def test_threads_are_as_many_as_asked_for_where_that_is_a_number(monkeypatch, stated, threads):
    monkeypatch.setenv("OMP_NUM_THREADS", stated)
    monkeypatch.setattr(onnx_engine, "cores", lambda: 4)
    assert onnx_engine._threads() == threads
