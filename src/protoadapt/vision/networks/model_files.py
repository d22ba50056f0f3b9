"""Networks as files: a run folder, a checkpoint folder or one safetensors file that describes its network."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor, nn

from protoadapt.core.errors import UserError, clean_json, intact
from protoadapt.core.files import sha256_of
from protoadapt.vision.networks.backbones import Staged, build
from protoadapt.vision.networks.cards import network_metadata

MODEL = "model.safetensors"


def all_of(run: Path) -> list[Path]:
    """The checkpoints of a run, oldest first."""
    return sorted(p for p in (run / "checkpoints").glob("step-*") if p.is_dir())


def latest(run: Path) -> Path | None:
    """The last checkpoint of a run, or None."""
    return next(reversed(all_of(run)), None)


def best(run: Path) -> Path | None:
    """The checkpoint that validation chose, or None."""
    path = run / "best.json"
    if not path.is_file():
        return None
    with intact(f"{str(path)!r} is damaged", "remove it to use the last checkpoint"):
        return run / "checkpoints" / f"step-{int(json.loads(path.read_bytes())['step']):08d}"


def load_weights(path: str | Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The weights and the metadata of a run folder, a checkpoint folder or a model file."""
    file = Path(path)
    if file.is_dir() and not (file / MODEL).is_file():
        file = best(file) or latest(file) or file
    if (file / MODEL).is_file():
        file = file / MODEL
    if not file.is_file():
        raise UserError(f"there is no model {str(file)!r}: give a run, a checkpoint or a .safetensors file")
    problem = f"{str(file)!r} is truncated or not a model"
    with intact(problem, "download it again"), safe_open(file, framework="numpy") as opened:
        metadata = clean_json((opened.metadata() or {}).get("protoadapt", "null"))
        weights = {name: torch.from_numpy(opened.get_tensor(name)) for name in opened.keys()}  # noqa: SIM118
    own = (metadata if isinstance(metadata, dict) else {}) | {"weights": sha256_of(file)[:16]}
    return weights, network_metadata(
        repr(str(file)), "give a model, such as a name that `protoadapt models` lists", **own
    )


def load_model(path: str | Path) -> tuple[Staged, dict[str, Any]]:
    """The backbone of a run (its best checkpoint, or the last), a checkpoint or a model file, and its metadata."""
    weights, metadata = load_weights(path)
    backbone = build(metadata["backbone"], metadata.get("width"))
    start = "backbone."
    own = {name.removeprefix(start): w for name, w in weights.items() if name.startswith(start)}
    load_into(backbone, own, path)
    return backbone.eval(), metadata | {"dim": backbone.dim}


def load_into(module: nn.Module, weights: Mapping[str, Tensor], path: str | Path) -> None:
    """Copy weights into a module of the same shape. Raises UserError where they do not fit."""
    try:
        module.load_state_dict(weights)
    except RuntimeError as error:
        reason = str(error).splitlines()[1].strip() if "\n" in str(error) else str(error)
        raise UserError(
            f"the weights in {str(path)!r} do not fit the network ({reason}): check backbone and width"
        ) from error


def plain(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Copies on the CPU, each contiguous, as safetensors needs them."""
    return {name: t.detach().to("cpu", copy=True, memory_format=torch.contiguous_format) for name, t in tensors.items()}
