"""What the tests of tables share: a tiny network, an archive of pictures, some broken, in 12 shards; and its table."""

import hashlib
from pathlib import Path

import numpy as np
import pytest
from helpers.label_files import write_table
from helpers.networks import save_model
from PIL import Image

from protoadapt.core.parts import open_parts, read_lists, read_rows
from protoadapt.labeling import label
from protoadapt.vision.pictures.walk import find
from protoadapt.vision.shards.extract import extract_parts
from protoadapt.vision.shards.manifest import write_manifest


def contents(folder: Path) -> dict[str, str]:
    """sha256 of every file by name."""
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(folder.iterdir()) if p.is_file()}


def write_picture(path: Path, rng: np.random.Generator, shade: int = 128) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = rng.integers(-60, 60, (20, 24, 3)) + shade
    Image.fromarray(noise.clip(0, 255).astype(np.uint8)).save(path)


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
    done = extract_parts(model, manifest, out, workers=1)
    assert (done.made, done.kept, done.made_pictures) == (12, 0, 120)
    return out


def names_and_rows(folder: Path) -> tuple[list[str], np.ndarray]:
    parts = open_parts(folder).parts
    return [name for part in parts for name in read_lists(part)["names"]], np.concatenate([*map(read_rows, parts)])


@pytest.fixture(scope="session")
def table(features) -> tuple[list[str], np.ndarray]:
    """All names and rows, in memory."""
    names, rows = names_and_rows(features)
    return names, rows.astype(np.float32)


def label_features(support, features, out, **options):
    """`label` of a table."""
    return label(support, None, out, features=features, **options)


CLASSES = {"a": "dark", "b": "mid", "c": "light"}  # by folder, as the archive's pictures are shaded


def write_csv(path: Path, names: list[str], shots: int) -> dict[str, str]:
    """A table of the first `shots` pictures of each class."""
    chosen = {n: CLASSES[f] for f in "abc" for n in [n for n in names if n[0] == f][:shots]}
    write_table(path, [{"file": file, "label": label} for file, label in chosen.items()])
    return chosen


def of(folder: Path) -> dict[str, dict]:
    """The rows of labels*.parquet by file."""
    pq = pytest.importorskip("pyarrow.parquet")
    rows = [row for path in sorted(folder.glob("labels*.parquet")) for row in pq.read_table(path).to_pylist()]
    return {row["file"]: row for row in rows}
