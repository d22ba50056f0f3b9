"""Features are computed once per content, survive a killed process, and are never taken from a broken piece."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load, save

from protoadapt import UserError
from protoadapt.vision import embed as embedding
from protoadapt.vision import networks
from protoadapt.vision.embed import embed, embed_files
from protoadapt.vision.feature_store import Store
from protoadapt.vision.pictures.decode import Picture, decode


class Counting(torch.nn.Module):
    """The network, and how many pictures it saw."""

    def __init__(self, network):
        super().__init__()
        self.network, self.seen = network, 0

    def forward(self, x):
        self.seen += len(x)
        return self.network(x)


@pytest.fixture
def loaded(model):
    network, metadata = networks.load(model)
    return Counting(network), metadata


@pytest.fixture
def files(tmp_path, paint):
    return [str(paint(tmp_path / "images" / f"{i}.png", "red", i)) for i in range(7)]


@pytest.fixture
def opened(tmp_path, loaded):
    """opened(): the store of this network, opened anew."""
    return lambda: Store(tmp_path / "cache", loaded[1]["weights"], loaded[1]["size"])


def test_rows_are_the_networks_and_a_second_run_neither_reads_nor_computes(loaded, files, monkeypatch, opened):
    network, metadata = loaded
    first, errors = embed_files(files, *loaded, opened())
    assert (errors, network.seen) == ({}, 7)
    monkeypatch.setattr(embedding, "read_file", lambda path: pytest.fail(f"{path} is read again"))
    store = opened()
    assert embed_files(files, *loaded, store)[0] == first
    assert network.seen == 7
    whole = np.stack([decode(Picture("", "", file), metadata["size"]) for file in files])
    expected = embed(network, metadata, whole).numpy()
    np.testing.assert_allclose(store.rows(first[::-1]), expected[::-1], atol=1e-5)


def test_moved_copied_and_changed_files_are_known_by_their_content(tmp_path, loaded, files, paint, opened):
    network, _ = loaded
    embed_files(files, *loaded, opened())
    moved = str(tmp_path / "images" / "moved.png")
    os.rename(files[0], moved)
    Path(files[1]).write_bytes(Path(files[2]).read_bytes())
    paint(Path(files[3]), "blue", 77)
    contents, _ = embed_files([moved, *files[1:]], *loaded, opened())
    assert network.seen == 8  # the painted one
    assert contents[1] == contents[2]


def test_broken_pieces_are_made_again(tmp_path, loaded, files, opened):
    contents, _ = embed_files(files, *loaded, opened())
    rows = opened().rows(contents)
    (piece,) = (tmp_path / "cache").rglob("*.safetensors")
    whole = piece.read_bytes()
    for damaged in (*(whole[:size] for size in (0, 1, 8, 200, len(whole) - 1)), save(load(whole))):  # no checksum
        piece.write_bytes(damaged)
        with pytest.warns(UserWarning, match="broken"):
            store = opened()
        assert embed_files(files, *loaded, store)[0] == contents
        np.testing.assert_allclose(store.rows(contents), rows, atol=1e-6)


def test_changed_features_are_never_used(tmp_path, loaded, files, opened):
    """Found when they are read: rows stay on disk until then."""
    contents, _ = embed_files(files, *loaded, opened())
    rows = opened().rows(contents)
    (piece,) = (tmp_path / "cache").rglob("*.safetensors")
    data = bytearray(piece.read_bytes())
    data[data.index(rows[3].tobytes())] ^= 1
    piece.write_bytes(data)
    with pytest.raises(UserError, match="is removed: run this again"):
        opened().rows(contents)
    store = opened()
    assert embed_files(files, *loaded, store)[0] == contents
    np.testing.assert_allclose(store.rows(contents), rows, atol=1e-6)


KILLED = """
import sys
from protoadapt.vision import embed, feature_store, networks
embed.CPU_BATCH, feature_store.SAVE_ROWS = 1, 2
network, metadata = networks.load(sys.argv[1])
def on_progress(done, total):
    if done == 5:
        print("now", flush=True)
        sys.stdin.read()  # until killed
store = feature_store.Store(sys.argv[2], metadata["weights"], metadata["size"])
embed.embed_files(sys.argv[3:], network, metadata, store, on_progress)
"""


def test_a_killed_process_leaves_whole_pieces(tmp_path, model, loaded, files, opened):
    network, _ = loaded
    command = [sys.executable, "-c", KILLED, str(model), str(tmp_path / "cache"), *files]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "now\n"
        process.send_signal(signal.SIGKILL)
    embed_files(files, *loaded, opened())
    assert network.seen == 7 - 4  # two pieces of two were there


def test_broken_files_are_reported_and_the_rest_goes_on(loaded, files, opened):
    Path(files[2]).write_bytes(Path(files[2]).read_bytes()[:60])
    Path(files[4]).write_text("no picture")
    os.remove(files[5])
    contents, errors = embed_files(files, *loaded, opened())
    assert [content is None for content in contents] == [i in (2, 4, 5) for i in range(7)]
    assert errors[2].startswith("it is truncated or damaged")
    assert errors[4].startswith("it is no picture of a known kind")
    assert errors[5] == "it cannot be opened (No such file or directory)"
