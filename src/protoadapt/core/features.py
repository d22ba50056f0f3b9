"""Features: pictures embedded once, kept as safetensors with where they come from; plain .npz is read too."""

import hashlib
import json
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

from protoadapt.core.errors import UserError
from protoadapt.core.evaluate import checked
from protoadapt.core.files import written_whole
from protoadapt.core.untrusted import clean_json, finite, for_terminal, whole

ARRAYS = ("features", "labels", "base_mean")
WORDS = ("dataset", "split", "crop", "weights", "trained_on")
"""What a file says of itself in words, if at all."""
LONGEST = 200
BROKEN = (OSError, ValueError, TypeError, KeyError, EOFError, OverflowError, MemoryError, RecursionError)
"""What reading a file can end in when its header does not tell the truth."""


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


def synthetic_features(
    classes: int = 20, rows: int = 120, dim: int = 64, spread: float = 1.1, seed: int = 0
) -> Features:
    """Rectified clouds around class directions: separable in the large, hard from one example."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(classes, dim))
    labels = np.repeat(np.arange(classes), rows)
    features = np.maximum(0.6 * centres[labels] + spread * rng.normal(size=(len(labels), dim)) + 0.3, 0)
    base_mean = torch.full((dim,), float(features.mean()))
    return Features(
        torch.from_numpy(features).float(), torch.from_numpy(labels), base_mean, {"dataset": "synthetic clouds"}
    )


def save_features(path: str | Path, table: Features) -> None:
    """One safetensors file, whole or not at all."""
    tensors = {"features": table.features.contiguous(), "labels": table.labels.long().contiguous()}
    if table.base_mean is not None:
        tensors["base_mean"] = table.base_mean.float().contiguous()
    with written_whole(path) as partial:
        save_file(tensors, partial, metadata={"protoadapt": json.dumps(dict(table.metadata))})


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
            f"{path.name!r} has no array {sorted(missing)[0]!r}: a feature file holds features (N, D) and labels (N)"
        )
    try:
        rows, labels = checked(arrays["features"], arrays["labels"])
    except UserError as error:
        raise UserError(f"{path.name}: {error}") from error
    mean = arrays.get("base_mean")
    return Features(rows, torch.from_numpy(labels), None if mean is None else mean.to(rows.dtype), metadata)


def stated(about: Mapping[str, Any], key: str) -> Any:
    """What features say of themselves, None where they do not; older ones are silent on pooling, and all are means."""
    return about.get(key, 1.0 if key == "pooling" else None)


def base_mean_of(path: str | Path, table: Features) -> Tensor:
    """The mean of a base-class feature file's rows, for methods that centre the rows of `table` by it."""
    base = load_features(path)
    for key, what in {"weights": "networks", "pooling": "poolings", "views": "views", "crop": "crops"}.items():
        one, other = (stated(given.metadata, key) for given in (base, table))
        if one and other and one != other:
            raise UserError(
                f"{Path(path).name!r} and the features are of different {what} ({one} and {other}): extract both alike"
            )
    return base.features.mean(0)


def _read_safetensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    try:
        with safe_open(path, framework="pt") as file:
            arrays = {name: file.get_tensor(name) for name in file.keys() if name in ARRAYS}  # noqa: SIM118
            metadata = clean_json((file.metadata() or {}).get("protoadapt", "{}"))
    except (*BROKEN, SafetensorError) as error:
        raise _unreadable(path, "safetensors") from error
    return arrays, _checked_about(metadata, path) if isinstance(metadata, dict) else {}


def _checked_about(told: dict[str, Any], path: Path) -> dict[str, Any]:
    """What a file says of itself, as it can be compared and printed."""
    fine = {key: told.get(key) is None or isinstance(told[key], str) for key in WORDS}
    fine |= {"views": whole(told.get("views", 1), 1), "pooling": finite(told.get("pooling", 1), 1, 8)}
    for key in fine:
        if not fine[key]:
            raise UserError(f"{path.name!r} says that its {key} is {told[key]!r:.60}: extract the features again")
    return {k: for_terminal(v[:LONGEST]) if isinstance(v, str) else v for k, v in told.items()}


def _read_npz(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: torch.from_numpy(_native(file[name])) for name in file.files if name in ARRAYS}
    except UserError as error:
        raise UserError(f"{path.name}: {error}") from error
    except (*BROKEN, zipfile.BadZipFile) as error:
        raise _unreadable(path, "npz") from error
    return arrays, {}


def _native(array: np.ndarray) -> np.ndarray:
    """In this machine's byte order, as torch wants it."""
    if array.dtype.kind in "US":
        raise UserError("it holds text where numbers belong: number the classes from 0 and write it again")
    return np.ascontiguousarray(array.astype(array.dtype.newbyteorder("="), copy=False))


def _unreadable(path: Path, kind: str) -> UserError:
    return UserError(f"{path.name!r} cannot be read as {kind}: it is truncated or of another kind; write it again")
