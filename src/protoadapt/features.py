"""Feature files: rows, labels and where they come from, as safetensors (or a plain .npz)."""

import hashlib
import json
import os
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from protoadapt.errors import UserError
from protoadapt.evaluate import checked

ARRAYS = ("features", "labels", "base_mean")


@dataclass(frozen=True)
class Features:
    """features (N, D); labels (N), −1 for none; base_mean (D) or None; metadata: dataset, split, views, backbone, …"""

    features: Tensor
    labels: Tensor
    base_mean: Tensor | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def hash(self) -> str:
        """Of rows and labels: two results with the same hash used the same features."""
        digest = hashlib.sha256()
        for array in (self.features, self.labels):
            digest.update(str((tuple(array.shape), array.dtype)).encode())
            digest.update(array.contiguous().numpy().tobytes())
        return digest.hexdigest()[:16]

    @property
    def about(self) -> dict[str, Any]:
        return {**self.metadata, "hash": self.hash, "rows": len(self.features), "dim": self.features.shape[1]}


def save_features(path: str | Path, table: Features) -> None:
    """One safetensors file, whole or not at all."""
    path = Path(path)
    tensors = {"features": table.features.contiguous(), "labels": table.labels.long().contiguous()}
    if table.base_mean is not None:
        tensors["base_mean"] = table.base_mean.float().contiguous()
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        save_file(tensors, partial, metadata={"protoadapt": json.dumps(dict(table.metadata))})
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def load_features(path: str | Path) -> Features:
    """A feature file, .safetensors or .npz, checked: float rows without NaN, one label a row."""
    path = Path(path)
    if not path.is_file():
        raise UserError(f"there is no feature file {str(path)!r}: check the path, or make one with protoadapt extract")
    readers = {".safetensors": _read_safetensors, ".npz": _read_npz}
    if path.suffix not in readers:
        raise UserError(f"{path.name!r} is no feature file: .safetensors and .npz are read")
    arrays, metadata = readers[path.suffix](path)
    missing = {"features", "labels"} - arrays.keys()
    if missing:
        raise UserError(
            f"{path.name!r} has no array {sorted(missing)[0]!r} (it has {', '.join(sorted(arrays)) or 'none'}): "
            f"a feature file holds features (N, D) and labels (N)"
        )
    try:
        rows, labels = checked(arrays["features"], arrays["labels"])
    except UserError as error:
        raise UserError(f"{path.name}: {error}") from error
    mean = arrays.get("base_mean")
    return Features(rows, torch.from_numpy(labels), None if mean is None else mean.to(rows.dtype), metadata)


def base_mean_of(path: str | Path) -> Tensor:
    """The mean of a base-class feature file's rows, for methods that centre by it."""
    return load_features(path).features.mean(0)


def _read_safetensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    try:
        with safe_open(path, framework="pt") as file:
            arrays = {name: file.get_tensor(name) for name in file.keys() if name in ARRAYS}  # noqa: SIM118
            metadata = json.loads((file.metadata() or {}).get("protoadapt", "{}"))
    except (SafetensorError, OSError, ValueError) as error:
        raise _unreadable(path, "safetensors") from error
    return arrays, metadata if isinstance(metadata, dict) else {}


def _read_npz(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: torch.from_numpy(file[name]) for name in file.files if name in ARRAYS}
    except (ValueError, OSError, TypeError, EOFError, KeyError, zipfile.BadZipFile) as error:
        raise _unreadable(path, "npz") from error
    return arrays, {}


def _unreadable(path: Path, kind: str) -> UserError:
    return UserError(f"{path.name!r} cannot be read as {kind}: it is truncated or of another kind; write it again")
