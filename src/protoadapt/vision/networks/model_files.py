"""Networks as files: a run folder, a checkpoint folder or one safetensors file that says which network it is."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as bytes_of
from torch import Tensor, nn

from protoadapt.core.errors import UserError
from protoadapt.core.files import write_synced, written_whole
from protoadapt.core.untrusted import clean_json, normalisation, whole
from protoadapt.vision.networks.backbones import Staged, build

MODEL = "model.safetensors"
JSON_LIMIT = 64 << 20
"""Bytes of JSON that are read at most: a config or history is a few kilobytes, a class list some hundred."""


def all_of(run: Path) -> list[Path]:
    """The checkpoints of a run, oldest first."""
    return sorted(p for p in (run / "checkpoints").glob("step-*") if p.is_dir())


def latest(run: Path) -> Path | None:
    return next(reversed(all_of(run)), None)


def best(run: Path) -> Path | None:
    """The checkpoint that validation chose, or None."""
    path = run / "best.json"
    if not path.is_file():
        return None
    try:
        return run / "checkpoints" / f"step-{int(read_json(path)['step']):08d}"
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{str(path)!r} is damaged: remove it, and the last checkpoint is taken") from error


def load_weights(path: str | Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """(weights, what the model is) of a run folder, a checkpoint folder or a single model file."""
    path = Path(path)
    if path.is_dir() and not (path / MODEL).is_file():
        folder = best(path) or latest(path)
        if folder is None:
            raise UserError(f"there is no model in {str(path)!r}: give a run, a checkpoint or a .safetensors file")
        path = folder
    file = path / MODEL if path.is_dir() else path
    if not file.is_file():
        raise UserError(f"there is no model {str(file)!r}: give a run, a checkpoint or a .safetensors file")
    try:
        with safe_open(file, framework="pt") as opened:
            about = clean_json((opened.metadata() or {}).get("protoadapt", "null"))
            weights = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError, RecursionError) as error:
        raise UserError(f"{str(file)!r} is truncated or no model at all: get it again") from error
    if not _describes_a_network(about):
        raise UserError(f"{str(file)!r} does not say which network it belongs to: it is no model of protoadapt's")
    if not whole(about["size"], 8, 1024):
        raise UserError(f"{str(file)!r} wants pictures of {about['size']} pixels: 8 to 1024 can be made")
    with open(file, "rb") as content:
        return weights, {**about, "weights": hashlib.file_digest(content, "sha256").hexdigest()[:16]}


def _describes_a_network(about: Any) -> bool:
    """Backbone, width, size and normalisation, each of the right kind: what a file says of itself is not trusted."""
    return (
        isinstance(about, dict)
        and all(isinstance(about.get(key), str) for key in ("backbone", "crop", "dataset"))
        and (about.get("width") is None or type(about["width"]) is int)
        and type(about.get("size")) is int
        and normalisation(about.get("mean"), about.get("std"))
    )


def load_model(path: str | Path) -> tuple[Staged, dict[str, Any]]:
    """The backbone of a run, a checkpoint or a model file, ready for features, and what it is.

    The second holds backbone, width, dim, mean, std (of pixels in [0, 1]), size, crop, dataset, class_names and
    "weights", a hash of the file.
    """
    weights, about = load_weights(path)
    backbone = build(about["backbone"], about.get("width"))
    start = "backbone."
    own = {name.removeprefix(start): w for name, w in weights.items() if name.startswith(start)}
    load_into(backbone, own, path)
    return backbone.eval(), about


def load_into(module: nn.Module, weights: Mapping[str, Tensor], path: str | Path) -> None:
    """Copy weights into a module of the same shape, or say where they do not fit."""
    try:
        module.load_state_dict(weights)
    except RuntimeError as error:
        reason = str(error).splitlines()[1].strip() if "\n" in str(error) else str(error)
        raise UserError(
            f"the weights in {str(path)!r} do not fit the network ({reason}): check backbone and width"
        ) from error


def save_fp16(backbone: nn.Module, about: Mapping[str, Any], path: str | Path) -> None:
    """A model file for shipping: weights in half precision, BatchNorm's statistics as they are; backbone alone."""
    weights = {
        f"backbone.{name}": t.half() if "running" not in name and t.is_floating_point() else t
        for name, t in backbone.state_dict().items()
    }
    with written_whole(path) as partial:
        write_synced(partial, bytes_of(plain(weights), {"protoadapt": json.dumps(dict(about))}))


def plain(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """On the host, each with its own memory in plain order, as safetensors wants them."""
    return {name: t.detach().to("cpu", copy=True, memory_format=torch.contiguous_format) for name, t in tensors.items()}


def read_json(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > JSON_LIMIT:
            raise damaged(path)
        value = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise damaged(path) from error
    if not isinstance(value, dict):
        raise damaged(path)
    return value


def damaged(path: Path) -> UserError:
    return UserError(
        f"{str(path)!r} is missing, truncated or damaged: remove the folder {path.parent.name!r} to go on from the "
        f"checkpoint before it"
    )
