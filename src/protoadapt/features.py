"""Features: pictures embedded once, kept as safetensors with where they come from; plain .npz is read too."""

import csv
import hashlib
import json
import os
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from protoadapt.augment import apply_weak, draw_weak
from protoadapt.backbones import Staged
from protoadapt.data import Images
from protoadapt.errors import UserError
from protoadapt.evaluate import checked
from protoadapt.files import written_whole
from protoadapt.told import clean_json, finite, for_terminal, whole

ARRAYS = ("features", "labels", "base_mean")
SMALL = 16
"""Pictures a forward pass on the CPU: with more, memory is asked for and given back faster than it is used."""
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


def extract(
    backbone: nn.Module,
    about: Mapping[str, Any],
    images: Images,
    base: Images | None = None,
    *,
    views: int = 1,
    pooling: float = 1.0,
    half: bool = False,
    on_progress: Callable[[int], None] = lambda done: None,
) -> Features:
    """Features of `images`, and the mean of those of `base`. `about` as `models.load` gives it."""
    if views < 1:
        raise UserError(f"views is {views}: at least one is needed")
    rows = check_rows(embed(backbone, about, images.pixels, views, on_progress, pooling=pooling), pooling)
    mean = None
    if base is not None:
        done = len(images) * views
        others = embed(backbone, about, base.pixels, views, lambda n: on_progress(done + n), pooling=pooling)
        mean = check_rows(others, pooling).mean(0)
    told = {key: about.get(key) for key in ("backbone", "width", "weights", "size", "mean", "std")}
    told |= {"trained_on": about.get("dataset"), "dataset": images.name, "split": images.split, "crop": images.crop}
    told |= {
        "views": views,
        "pooling": pooling,
        "rectified": bool((rows >= 0).all()),
        "class_names": list(images.class_names),
    }
    if images.name == "folder":  # one's own: what its folder is called, in text whatever its bytes are
        told["folder"] = os.fsencode(images.root.resolve().name).decode("utf-8", "replace")
    rows = to_half(rows, "store them without --half") if half else rows
    return Features(rows, torch.from_numpy(np.array(images.labels)).long(), mean, told)


@torch.inference_mode()
def embed(
    backbone: nn.Module,
    about: Mapping[str, Any],
    pixels: np.ndarray,
    views: int = 1,
    on_progress: Callable[[int], None] = lambda done: None,
    batch: int = 256,
    pooling: float = 1.0,
) -> Tensor:
    """(N, D) on the CPU: the mean feature of each picture's views. pixels (N, 3, H, H) uint8.

    View 1 is the picture, view 2 its mirror image, further ones are random windows of at least 35 % of its area. Each
    picture is embedded alone: its windows depend on its row number and, in the last batch, on how many rows that has,
    never on other pictures.
    `pooling` is the exponent of the mean over all places (`backbones.staged.generalised_mean`).
    """
    check_pooling(backbone, pooling)
    network = backbone if pooling == 1 else partial(backbone, pooling=pooling)
    device = next(backbone.parameters(), torch.empty(0)).device  # an ONNX file has none and takes any
    step = SMALL if device.type == "cpu" else batch
    mean, std = (255 * torch.tensor(about[key], device=device).view(3, 1, 1) for key in ("mean", "std"))
    out = []
    for start in range(0, len(pixels), batch):
        images = torch.from_numpy(np.array(pixels[start : start + batch])).to(device)
        total = torch.zeros((), device=device)
        for view in range(views):
            seen = images if view == 0 else images.flip(-1) if view == 1 else _window(images, start, view)
            x = ((seen - mean) / std).contiguous(memory_format=torch.channels_last)
            total = total + torch.cat([network(part).float() for part in x.split(step)])
            on_progress(views * start + (view + 1) * len(images))
        out.append((total / views).cpu())
    return torch.cat(out)


def check_pooling(backbone: nn.Module, exponent: float) -> None:
    if not 1 <= exponent <= 8:
        raise UserError(f"pooling is {exponent:g}: give 1 for the mean over all places, up to 8 to favour strong ones")
    if exponent != 1 and not isinstance(backbone, Staged):
        raise UserError("this network pools its features itself: leave pooling at 1, or take one of protoadapt's own")


def check_rows(rows: Tensor, pooling: float = 1.0) -> Tensor:
    """The same rows, if they are finite."""
    if torch.isinf(rows).any() and pooling != 1 and not torch.isnan(rows).any():
        raise UserError(f"the features overflow when they are raised to the power {pooling:g}: lower pooling")
    if not torch.isfinite(rows).all():
        raise UserError("the network gives NaN or infinite features: its weights are damaged, get the model again")
    return rows


def to_half(rows: Tensor, way_out: str = "scale them") -> Tensor:
    """(n, D) float16. Features that it cannot hold are an error, not infinite."""
    answer = check_rows(rows).half()
    if not torch.isfinite(answer).all():
        raise UserError(f"the network gives features up to {rows.abs().max():.3g}, too large for float16: {way_out}")
    return answer


def _window(images: Tensor, start: int, view: int) -> Tensor:
    generator = torch.Generator().manual_seed(start * 1009 + view)
    draws = draw_weak(len(images), images.shape[-1], generator, images.device, crop="resized")
    return apply_weak(images, draws)


def save_index(path: str | Path, images: Images) -> None:
    """Beside a feature file: which picture each row is. sha256 is of the decoded pixels, whatever the layout."""
    # Names are bytes on some systems: what is no text is written as those bytes again.
    with written_whole(path) as partial, open(partial, "w", newline="", errors="surrogateescape") as file:
        writer = csv.writer(file)
        writer.writerow(["path", "sha256", "label", "class"])
        for name, row, label in zip(images.paths, images.pixels, images.labels):
            writer.writerow([name, hashlib.sha256(row.tobytes()).hexdigest(), label, images.class_names[label]])


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
