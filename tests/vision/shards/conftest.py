"""A tiny network and a small archive of pictures, some of them broken, in 12 shards."""

from pathlib import Path

import numpy as np
import pytest
from helpers.archive import save_model, write_picture

from protoadapt.core.parts import read_lists, read_rows
from protoadapt.vision.shards import extract_parts, find, hashed, open_features, write_manifest


@pytest.fixture(scope="session")
def model(tmp_path_factory) -> Path:
    return save_model(tmp_path_factory.mktemp("model") / "tiny.safetensors")


@pytest.fixture(scope="session")
def archive(tmp_path_factory) -> Path:
    """118 pictures in 3 folders, of three shades; two more are broken in different ways."""
    folder = tmp_path_factory.mktemp("archive")
    rng = np.random.default_rng(0)
    for i in range(118):
        suffix = ("png", "jpg")[i % 2]
        write_picture(folder / "abc"[i % 3] / f"{i:03d}.{suffix}", rng, (60, 128, 200)[i % 3])
    (folder / "b" / "050x.png").write_bytes((folder / "b" / "004.png").read_bytes()[:200])
    (folder / "c" / "text.jpg").write_text("no picture")
    return folder


@pytest.fixture(scope="session")
def manifest(archive, tmp_path_factory):
    """12 shards of 10."""
    made = write_manifest(tmp_path_factory.mktemp("manifest") / "m.jsonl", *find([archive]), shard_size=10)
    assert len(made.shards) == 12
    return made


@pytest.fixture(scope="session")
def features(model, manifest, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("features")
    extract_parts(model, manifest, out, workers=1)
    return out


@pytest.fixture(scope="session")
def table(features) -> tuple[list[str], np.ndarray]:
    """All names and rows, in memory."""
    parts = open_features(features).parts
    names = [name for part in parts for name in read_lists(part)["names"]]
    return names, np.concatenate([read_rows(part) for part in parts]).astype(np.float32)


@pytest.fixture(scope="session")
def hashed_features(archive, model, tmp_path_factory) -> Path:
    """As `features`, of a manifest that knows what the pictures hold."""
    folder = tmp_path_factory.mktemp("hashed")
    root, entries = find([archive])
    extract_parts(model, write_manifest(folder / "m.jsonl", root, hashed(root, entries), 10), folder / "out", workers=1)
    return folder / "out"
