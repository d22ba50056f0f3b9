"""Feature files: embedded pictures with their labels and origin, as safetensors; plain .npz is read too."""

import hashlib
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from protoadapt.core.arrays import as_tensor, checked_rows
from protoadapt.core.errors import UserError, clean_json, for_terminal, intact
from protoadapt.core.files import written_whole

BASE = ("base_mean", "base_covariance")
ARRAYS = ("features", "labels", *BASE)
MAPS = "maps"
"""The array of the rows before the mean over places; large, so it is read where it is asked for only."""
_LONGEST = 200
UNPACKED = 2**30
RATIO = 100
"""An archive may unpack to 1 GiB, or to 100 times its size: features pack to a fifth at best."""


@dataclass(frozen=True)
class Features:
    """A table of features.

    Parameters
    ----------
    features : Tensor (N, D)
    labels : Tensor (N,)
        Class of each row; −1 for none.
    base_mean : Tensor (D,), optional
        Mean of the base classes' features.
    maps : Tensor (N, D · H · W), optional
        The same rows before the mean over the H × W places of the last stage, for heads that look at them.
    base_covariance : Tensor (D, D), optional
        Their covariance within classes, as `within_class_covariance` has it.
    names : tuple of N str, optional
        The picture of each row.
    metadata : dict
        Origin: dataset, split, crop, views, pooling, weights (hash), class_names, …

    Examples
    --------
    >>> table = load_features("novel.safetensors")
    >>> evaluate(table.features, table.labels, "cipa", base_mean=table.base_mean)
    """

    features: Tensor
    labels: Tensor
    base_mean: Tensor | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    maps: Tensor | None = None
    base_covariance: Tensor | None = None
    names: tuple[str, ...] | None = None

    @property
    def base(self) -> dict[str, Tensor | None]:
        """What is known of the base classes, by the names of BASE: arguments of `evaluate` and `compare`."""
        return {name: getattr(self, name) for name in BASE}

    @property
    def hash(self) -> str:
        """Digest of rows and labels: results with the same hash used the same features."""
        digest = hashlib.sha256()
        for array in (self.features, self.labels):
            digest.update(str((tuple(array.shape), array.dtype)).encode())
            digest.update(array.contiguous().numpy().tobytes())
        return digest.hexdigest()[:16]

    @property
    def about(self) -> dict[str, Any]:
        """The metadata with hash, number of rows and dimensions, for the record of a result."""
        return {**self.metadata, "hash": self.hash, "rows": len(self.features), "dim": self.features.shape[1]}


def save_features(path: str | Path, table: Features) -> None:
    """Writes a feature file (safetensors), whole or not at all.

    Examples
    --------
    >>> save_features("novel.safetensors", Features(rows, labels, metadata={"dataset": "birds"}))
    """
    tensors = {"features": table.features.contiguous(), "labels": table.labels.long().contiguous()}
    tensors |= {name: array.float().contiguous() for name, array in table.base.items() if array is not None}
    if table.maps is not None:
        tensors[MAPS] = table.maps.contiguous()
    texts = {"protoadapt": json.dumps(dict(table.metadata))}
    if table.names is not None:
        texts["names"] = json.dumps(table.names)
    with written_whole(path) as unfinished:
        save_file(tensors, unfinished, metadata=texts)


def load_features(path: str | Path, maps: bool = False) -> Features:
    """Reads and checks a feature file.

    Parameters
    ----------
    path : str or Path
        .safetensors as written by `save_features`, or .npz with arrays features (N, D), labels (N,) and optionally
        base_mean (D,) and base_covariance (D, D). Labels may be class names; they are numbered in
        sorted order and kept as `metadata["class_names"]`.
    maps : bool, default False
        Also read the features of every place, where a .safetensors file holds them (`extract --maps`).

    Returns
    -------
    Features
        Finite float rows, one label per row.

    Examples
    --------
    >>> np.savez("mine.npz", features=rows, labels=["cat", "dog", "cat"])
    >>> load_features("mine.npz").metadata["class_names"]
    ['cat', 'dog']
    """
    path = Path(path)
    if path.is_file() and path.suffix in (".npy", ".pt", ".pth", ".pkl", ".pickle", ".csv"):
        raise UserError(
            f"{str(path)!r} is no feature file: load it in Python and write numpy.savez({path.stem + '.npz'!r}, "
            f"features=features, labels=labels), one row and one label per picture"
        )
    if not path.is_file() or path.suffix not in (".safetensors", ".npz"):
        raise UserError(
            f"{str(path)!r} is not there or no feature file: give a .safetensors or .npz file, or make one with "
            f"protoadapt extract"
        )
    try:
        with intact(f"it is truncated, damaged or no {path.suffix[1:]} of arrays", "write it again"):
            return _table(*(_read_npz(path) if path.suffix == ".npz" else _read_safetensors(path, maps)))
    except UserError as error:
        raise UserError(f"{path.name}: {error}") from error


def _read_safetensors(path: Path, maps: bool) -> tuple[dict[str, Any], dict[str, str]]:
    asked = (*ARRAYS, MAPS) if maps else ARRAYS
    with safe_open(path, framework="numpy") as file:
        return {name: file.get_tensor(name) for name in file.keys() if name in asked}, file.metadata() or {}  # noqa: SIM118


def _read_npz(path: Path) -> tuple[dict[str, Any], dict[str, str]]:
    with zipfile.ZipFile(path) as archive:
        size = sum(member.file_size for member in archive.infolist())
    if size > max(UNPACKED, RATIO * path.stat().st_size):
        raise UserError(f"it unpacks to {size / 2**30:,.1f} GiB: write it with np.savez, uncompressed")
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in ARRAYS if name in file}, {}


def _table(arrays: dict[str, Any], texts: dict[str, str]) -> Features:
    """The table that a file holds. Raises UserError where its parts do not fit, or its metadata cannot be compared."""
    if missing := sorted({"features", "labels"} - arrays.keys()):
        raise UserError(f"it has no array {missing[0]!r}: a feature file holds features (N, D) and labels (N)")
    rows, labels, class_names = checked_rows(arrays["features"], arrays["labels"])
    if not len(rows):
        raise UserError("it has no rows: give a feature file with one row per picture")
    maps = as_tensor(arrays[MAPS], MAPS).view(len(rows), -1) if MAPS in arrays else None
    names = json.loads(texts.get("names", "null"))
    stored = dict(clean_json(texts.get("protoadapt", "{}")))
    metadata = {"class_names": class_names} if class_names else stored
    for key, value in metadata.items():
        if isinstance(value, str):
            metadata[key] = for_terminal(value[:_LONGEST])
    base = {name: as_tensor(arrays[name], name).to(rows.dtype) for name in BASE if name in arrays}
    return Features(rows, torch.from_numpy(labels), metadata=metadata, maps=maps, names=names and tuple(names), **base)


def stated(metadata: Mapping[str, Any], key: str) -> Any:
    """A metadata entry, None where it is absent. Without "pooling" it is 1, the mean."""
    return metadata.get(key, 1.0 if key == "pooling" else None)


def within_class_covariance(features: Tensor, labels: Tensor) -> Tensor:
    """(D, D): how rows of one class vary, from rows (N, D) of base classes with labels (N,), −1: none, in float32.

    Rows are centred by their mean and of unit length, as BAVARDAGE uses them. Classes count equally whatever their
    spread: the mean of the classes' covariances, each divided by its Frobenius norm, times the mean of these norms.
    """
    rows = torch.nn.functional.normalize(features.float() - features.float().mean(0), dim=1)
    total = torch.zeros(rows.shape[1], rows.shape[1], device=rows.device)
    norms = []
    for c in labels[labels >= 0].unique():
        own = rows[labels == c]
        covariance = torch.cov(own.T, correction=0)
        norms.append(float(covariance.norm()))
        total += covariance / max(norms[-1], torch.finfo(torch.float32).tiny)
    return total / len(norms) * (sum(norms) / len(norms))


def base_statistics(features: Tensor, labels: Tensor) -> dict[str, Any]:
    """What methods use of base classes, from their rows (N, D) and labels (N,): the arrays of BASE."""
    covariance = within_class_covariance(features, labels)
    return dict(zip(BASE, (features.mean(0), covariance), strict=True))


def with_base(table: Features, path: str | Path) -> Features:
    """The table with the mean and the covariance of a feature file of base classes, for methods that use them.

    Raises UserError where the file was extracted in another way than the table.
    """
    base = load_features(path)
    alike = {"dim": "numbers of dimensions", "weights": "networks", "pooling": "poolings", "views": "views"}
    alike |= {"crop": "crops"}
    for key, plural in alike.items():
        one, other = (stated({**part.metadata, "dim": part.features.shape[1]}, key) for part in (base, table))
        if one and other and one != other:
            raise UserError(
                f"{Path(path).name!r} and the features are of different {plural} ({one} and {other}): "
                f"extract both alike"
            )
    if not (base.labels >= 0).any():
        raise UserError(f"{Path(path).name!r} has no labelled rows: give a feature file of base classes")
    statistics = base_statistics(base.features, base.labels)
    return replace(table, **{name: one.to(table.features.dtype) for name, one in statistics.items()})
