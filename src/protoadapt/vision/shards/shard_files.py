"""Shard files: the features of one shard, which pictures they are, and where all of it comes from.

`shard-000012.safetensors` holds

    features (n, D) float16     one row a picture that could be read
    rows (n) int32              its number in the manifest's shard
    names, uint8                the pictures' names as a JSON list, so that the file stands alone
    contents (n, 32) uint8      the sha256 of their bytes, where the manifest has it

and in its metadata: the hashes of model weights and of the manifest's shard, views, the lowest feature (methods ask
whether features are rectified), the pictures that could not be read, and a sha256 of all this. A file is whole and
right when that hash fits, whoever wrote it. `about.json` beside the shards says what they are shards of.
"""

import hashlib
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors.numpy import save

from protoadapt.core.errors import UserError
from protoadapt.core.files import written_whole
from protoadapt.core.untrusted import normalisation, whole
from protoadapt.vision.shards.manifest import Manifest

SCHEMA = "protoadapt-features-shard/1"
ABOUT = "about.json"
STALE = 3600  # seconds after which a half-written file is a dead process's
HEADER_LIMIT = 1 << 26


class Damaged(Exception):
    """A shard file that is not whole; what is wrong."""


class Header(NamedTuple):
    """What a shard file holds, and where."""

    path: Path
    shape: tuple[int, int]  # of its features
    spans: dict[str, tuple[int, int]]  # first byte and the one after the last, of each array
    told: dict[str, Any]


def shard_path(folder: Path, number: int) -> Path:
    return folder / f"shard-{number:06d}.safetensors"


def write_shard(
    path: Path,
    features: np.ndarray,
    rows: np.ndarray,
    names: list[str],
    told: Mapping[str, Any],
    contents: np.ndarray | None = None,
) -> None:
    """Whole or not at all. The same arguments give the same bytes."""
    tensors = {
        "features": np.ascontiguousarray(features, "<f2"),
        "rows": rows.astype("<i4"),
        "names": np.frombuffer(json.dumps(names, separators=(",", ":")).encode(), np.uint8),
    }
    if contents is not None:
        tensors["contents"] = contents
    lowest = float(features.min()) if features.size else 0.0
    about = {"schema": SCHEMA, **told, "lowest": lowest}
    about["sha256"] = _digest({name: tensor.tobytes() for name, tensor in tensors.items()}, about)
    with written_whole(path) as partial:
        partial.write_bytes(save(tensors, {"protoadapt": json.dumps(about)}))


def read_header(path: Path) -> Header:
    """Without the rows. Raises Damaged."""
    with _damage(path), open(path, "rb") as file:
        size = int.from_bytes(file.read(8), "little")
        if size > HEADER_LIMIT:
            raise ValueError("it does not begin as a safetensors file")
        tensors = json.loads(file.read(size))
        told = json.loads(tensors.pop("__metadata__")["protoadapt"])
        if told["schema"] != SCHEMA or tensors.keys() - {"contents"} != {"features", "rows", "names"}:
            raise ValueError("it is another kind of file")
        fine = whole(told["shard"], 0) and all(
            isinstance(one["name"], str) and isinstance(one["reason"], str) and whole(one["row"], 0)
            for one in told["broken"]
        )
        n, dim = tensors["features"]["shape"]
        if not (fine and whole(n, 0) and whole(dim, 1)):
            raise ValueError("its description is incomplete")
        spans = {name: tuple(8 + size + at for at in spec["data_offsets"]) for name, spec in tensors.items()}
        length, ends = os.fstat(file.fileno()).st_size, max(end for _, end in spans.values())
        first, last = spans["features"]
        if length != ends:
            raise ValueError(f"{length:,} bytes instead of {ends:,}")
        if tensors["features"]["dtype"] != "F16" or last - first != 2 * n * dim:
            raise ValueError("its features are of another shape or type")
        return Header(path, (n, dim), spans, told)


def read_rows(header: Header) -> np.ndarray:
    """(n, D) float16, unchecked: for the many times that a file is run through after it was checked once."""
    return _read(header, "features", "<f2").reshape(header.shape)


def read_names(header: Header) -> tuple[list[str], np.ndarray]:
    """The pictures' names, and their numbers in the manifest's shard."""
    return json.loads(_read(header, "names", "u1").tobytes()), _read(header, "rows", "<i4")


def read_contents(header: Header) -> list[bytes]:
    """The sha256 of each picture's bytes, zeros where it is not known; nothing where none is."""
    data = _read(header, "contents", "u1").tobytes() if "contents" in header.spans else b""
    return [data[at : at + 32] for at in range(0, len(data), 32)]


def _read(header: Header, name: str, dtype: str) -> np.ndarray:
    first, last = header.spans[name]
    data = np.fromfile(header.path, dtype, (last - first) // np.dtype(dtype).itemsize, offset=first)
    if data.nbytes != last - first:
        raise UserError(f"{str(header.path)!r} became shorter while it was read: run extract again")
    return data


def check(path: Path) -> Header:
    """The header of a shard file whose every byte is as it was written. Raises Damaged."""
    header = read_header(path)
    with _damage(path):
        told = dict(header.told)
        digest = told.pop("sha256", None)
        if _digest({name: _read(header, name, "u1").tobytes() for name in header.spans}, told) != digest:
            raise ValueError("its checksum does not fit")
        names, rows = read_names(header)
        if len(names) != header.shape[0] or len(rows) != header.shape[0]:
            raise ValueError("its names are not those of its rows")
        if not np.isfinite(read_rows(header)).all():
            raise ValueError("it holds NaN or infinite features")
    return header


def sweep(folder: Path) -> None:
    """Remove what killed processes left half-written long ago."""
    for file in folder.glob(".*.partial"):
        try:
            if time.time() - file.stat().st_mtime > STALE:
                file.unlink()
        except OSError:
            continue


def identity(about: Mapping[str, Any], manifest: Manifest, views: int) -> dict[str, Any]:
    """What all shards of a folder have in common, and what tells them from those of another model or manifest."""
    return {"weights": about["weights"], "views": views, "manifest": manifest.sha256}


def claim(folder: Path, about: Mapping[str, Any], manifest: Manifest, views: int) -> None:
    """Say in about.json whose features the folder holds, or find that it is the same as before."""
    keys = ("model", "backbone", "width", "weights", "size", "mean", "std", "dataset")
    told = {"schema": "protoadapt-features/1", **identity(about, manifest, views)}
    told |= {"model": {key: about.get(key) for key in keys}, "root": str(manifest.root)}
    told |= {"pictures": manifest.pictures, "shards": len(manifest.shards)}
    path = folder / ABOUT
    if not path.exists():
        with written_whole(path) as partial:
            partial.write_text(json.dumps(told, indent=1, default=str) + "\n")
    before = read_about(folder)
    for key, what in (("weights", "another model"), ("manifest", "another manifest"), ("views", "other --views")):
        if before.get(key) != told[key]:
            raise UserError(
                f"{str(folder)!r} holds features of {what} ({before.get(key)}, now {told[key]}): give another --out"
            )


def read_about(folder: Path) -> dict[str, Any]:
    path = folder / ABOUT
    if not path.is_file():
        raise UserError(f"there are no features in {str(folder)!r}: make them with protoadapt extract --manifest")
    try:
        told = json.loads(path.read_bytes())
        model = told["model"]
        texts = (told["weights"], told["manifest"], told["root"], model["model"], model["weights"])
        numbers = whole(told["shards"], 1) and whole(told["pictures"], 0) and whole(told["views"], 1)
        made = whole(model["size"], 8, 1024) and normalisation(model["mean"], model["std"])
        if not (numbers and made and all(isinstance(text, str) and "\0" not in text for text in texts)):
            raise ValueError
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UserError(f"{str(path)!r} is damaged: remove it and run protoadapt extract again") from error
    return told


def _digest(parts: Mapping[str, bytes], told: Mapping[str, Any]) -> str:
    digest = hashlib.sha256(json.dumps(told, sort_keys=True).encode())
    for name in sorted(parts):
        digest.update(f"{name} {len(parts[name])} ".encode())
        digest.update(parts[name])
    return digest.hexdigest()


class _damage:
    """Whatever reading a file that is not whole can end in, as Damaged."""

    def __init__(self, path: Path):
        self.path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, (ValueError, KeyError, TypeError, AttributeError, RecursionError, OSError)):
            raise Damaged(f"{self.path.name}: {error}") from error
