"""Shard files: the features of one shard, which pictures they are, and where all of it comes from.

`shard-000012.safetensors` holds

    features (n, D) float16     one row per readable picture
    rows (n) int32              its number in the manifest's shard
    names, uint8                the pictures' names as a JSON list, so that the file stands alone
    contents (n, 32) uint8      the sha256 of their bytes, where the manifest has it

and in its metadata: the hashes of the model's weights and of the manifest's shard, the engine that computed them (none
is torch), views, the lowest feature (methods ask whether features are rectified), the unreadable pictures, and a sha256
of all this. A file is complete and correct
when that hash fits, whoever wrote it. `about.json` beside the shards describes the model and the manifest.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors.numpy import save

from protoadapt.core.errors import UserError
from protoadapt.core.files import written_whole
from protoadapt.core.untrusted import whole
from protoadapt.vision.network_metadata import input_errors
from protoadapt.vision.networks.engines import ONNXRUNTIME, TORCH
from protoadapt.vision.shards.manifest import Manifest

SCHEMA = "protoadapt-features-shard/1"
ABOUT = "about.json"
HEADER_LIMIT = 1 << 26


class Damaged(Exception):
    """A shard file that is incomplete or changed; the text says how."""


class Header(NamedTuple):
    """The description of a shard file: what it holds, and where."""

    path: Path
    shape: tuple[int, int]  # of its features
    spans: dict[str, tuple[int, int]]  # first byte and the one after the last, of each array
    metadata: dict[str, Any]


def shard_path(folder: Path, number: int) -> Path:
    """The file of a shard."""
    return folder / f"shard-{number:06d}.safetensors"


def write_shard(
    path: Path,
    features: np.ndarray,
    rows: np.ndarray,
    names: list[str],
    record: Mapping[str, Any],
    contents: np.ndarray | None = None,
) -> None:
    """Write a shard file, completely or not at all. The same arguments give the same bytes.

    `record` holds shard, of, weights, views, manifest and broken.
    """
    tensors = {
        "features": np.ascontiguousarray(features, "<f2"),
        "rows": rows.astype("<i4"),
        "names": np.frombuffer(json.dumps(names, separators=(",", ":")).encode(), np.uint8),
    }
    if contents is not None:
        tensors["contents"] = contents
    lowest = float(features.min()) if features.size else 0.0
    metadata = {"schema": SCHEMA, **record, "lowest": lowest}
    metadata["sha256"] = _digest({name: tensor.tobytes() for name, tensor in tensors.items()}, metadata)
    with written_whole(path) as partial:
        partial.write_bytes(save(tensors, {"protoadapt": json.dumps(metadata)}))


def read_header(path: Path) -> Header:
    """Read the description of a shard file, without its rows. Raises Damaged."""
    with _damage(path), open(path, "rb") as file:
        size = int.from_bytes(file.read(8), "little")
        if size > HEADER_LIMIT:
            raise ValueError("it is not a safetensors file")
        tensors = json.loads(file.read(size))
        metadata = json.loads(tensors.pop("__metadata__")["protoadapt"])
        if metadata["schema"] != SCHEMA or tensors.keys() - {"contents"} != {"features", "rows", "names"}:
            raise ValueError("it is not a shard file")
        fine = whole(metadata["shard"], 0) and all(
            isinstance(one["name"], str) and isinstance(one["reason"], str) and whole(one["row"], 0)
            for one in metadata["broken"]
        )
        n, dim = tensors["features"]["shape"]
        if not (fine and whole(n, 0) and whole(dim, 1)):
            raise ValueError("its description is incomplete")
        spans = {name: tuple(8 + size + at for at in spec["data_offsets"]) for name, spec in tensors.items()}
        length, ends = os.fstat(file.fileno()).st_size, max(end for _, end in spans.values())
        first, last = spans["features"]
        if length != ends:
            raise ValueError(f"it has {length:,} bytes instead of {ends:,}")
        if not all(whole(first, 8 + size) and whole(last, first, length) for first, last in spans.values()):
            raise ValueError("its description names places that are not in it")
        if tensors["features"]["dtype"] != "F16" or last - first != 2 * n * dim:
            raise ValueError("its features are of another shape or type")
        return Header(path, (n, dim), spans, metadata)


def read_rows(header: Header) -> np.ndarray:
    """The features (n, D) float16, unchecked: a file is read in many passes and checked once before."""
    return _read(header, "features", "<f2").reshape(header.shape)


def read_names(header: Header) -> tuple[list[str], np.ndarray]:
    """The names of the pictures, and their numbers in the manifest's shard."""
    return json.loads(_read(header, "names", "u1").tobytes()), _read(header, "rows", "<i4")


def read_contents(header: Header) -> list[bytes]:
    """The sha256 of each picture's bytes, zeros where it is not known; an empty list where none is."""
    data = _read(header, "contents", "u1").tobytes() if "contents" in header.spans else b""
    return [data[at : at + 32] for at in range(0, len(data), 32)]


def _read(header: Header, name: str, dtype: str) -> np.ndarray:
    first, last = header.spans[name]
    data = np.fromfile(header.path, dtype, (last - first) // np.dtype(dtype).itemsize, offset=first)
    if data.nbytes != last - first:
        raise UserError(f"{str(header.path)!r} became shorter while it was read: run protoadapt extract again")
    return data


def check(path: Path) -> Header:
    """Read the header of a shard file and compare every byte with its checksum. Raises Damaged."""
    header = read_header(path)
    with _damage(path):
        metadata = dict(header.metadata)
        digest = metadata.pop("sha256", None)
        if _digest({name: _read(header, name, "u1").tobytes() for name in header.spans}, metadata) != digest:
            raise ValueError("its checksum does not fit")
        names, rows = read_names(header)
        if len(names) != header.shape[0] or len(rows) != header.shape[0]:
            raise ValueError("its names do not fit its rows")
        if not np.isfinite(read_rows(header)).all():
            raise ValueError("it holds NaN or infinite features")
    return header


def identity(metadata: Mapping[str, Any], manifest: Manifest, views: int) -> dict[str, Any]:
    """What all shards of a folder have in common: the model's weights and engine, the views and the manifest.

    Engines differ in their last bits. Shards by torch do not name it, as none did when there was no other.
    """
    common = {"weights": metadata["weights"], "views": views, "manifest": manifest.sha256}
    return common | ({"engine": ONNXRUNTIME} if metadata.get("engine") == ONNXRUNTIME else {})


def recorded_engine(folder: Path) -> str | None:
    """The engine that made the shards of a folder; None where there are none yet."""
    return read_record(folder).get("engine", TORCH) if (folder / ABOUT).exists() else None


def claim(folder: Path, metadata: Mapping[str, Any], manifest: Manifest, views: int) -> None:
    """Write about.json for this model and manifest, or raise UserError where the folder holds other features."""
    keys = ("model", "backbone", "width", "weights", "size", "mean", "std", "dataset")
    record = {"schema": "protoadapt-features/1", **identity(metadata, manifest, views)}
    record |= {"model": {key: metadata.get(key) for key in keys}, "root": str(manifest.root)}
    record |= {"pictures": manifest.pictures, "shards": len(manifest.shards)}
    path = folder / ABOUT
    if not path.exists():
        with written_whole(path) as partial:
            partial.write_text(json.dumps(record, indent=1, default=str) + "\n")
    before = read_record(folder)
    kinds = {"weights": "another model", "manifest": "another manifest", "views": "other --views"}
    for key, what in (kinds | {"engine": "another engine"}).items():
        then, now = before.get(key, TORCH), record.get(key, TORCH)
        if then != now:
            other = "use another --out" + (", or the --device of before" if key == "engine" else "")
            raise UserError(f"{str(folder)!r} holds features of {what} ({then}, now {now}): {other}")


def read_record(folder: Path) -> dict[str, Any]:
    """Read about.json of a feature folder. Raises UserError where it is missing or damaged."""
    path = folder / ABOUT
    if not path.is_file():
        raise UserError(f"there are no features in {str(folder)!r}: make them with protoadapt extract --manifest")
    try:
        record = json.loads(path.read_bytes())
        model = record["model"]
        texts = (record["weights"], record["manifest"], record["root"], model["model"], model["weights"])
        numbers = whole(record["shards"], 1) and whole(record["pictures"], 0) and whole(record["views"], 1)
        made = not input_errors(model)
        if not (numbers and made and all(isinstance(text, str) and "\0" not in text for text in texts)):
            raise ValueError
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UserError(f"{str(path)!r} is damaged: remove it and run protoadapt extract again") from error
    return record


def _digest(parts: Mapping[str, bytes], metadata: Mapping[str, Any]) -> str:
    digest = hashlib.sha256(json.dumps(metadata, sort_keys=True).encode())
    for name in sorted(parts):
        digest.update(f"{name} {len(parts[name])} ".encode())
        digest.update(parts[name])
    return digest.hexdigest()


@contextmanager
def _damage(path: Path) -> Iterator[None]:
    """Turn whatever reading an incomplete file can end in into Damaged."""
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OSError) as error:
        raise Damaged(f"{path.name}: {error}") from error
