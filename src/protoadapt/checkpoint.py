"""Checkpoints: folders that are there whole or not at all, and models that stand alone.

    RUN/checkpoints/step-00001200/
        config.json         the training config, and the model: backbone, input mean and std, class names
        model.safetensors   the weights to use (the weight average); alone, this file is a model
        state.safetensors   what training needs to go on: its own weights and the optimiser's tensors
        state.json          counters, history, and the checksums of these and of the files above
    RUN/best.json           the step of the best checkpoint

A folder is written under another name, synced to disk and renamed. There are no generator states: every random number
of a run is a function of its seed and of the counters.
"""

import errno
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load as tensors_from
from safetensors.torch import save as bytes_of
from torch import Tensor, nn

from protoadapt.backbones import Staged, build
from protoadapt.errors import UserError
from protoadapt.files import written_whole
from protoadapt.told import clean_json, normalisation, whole

SCHEMA = "protoadapt-checkpoint/1"
CONFIG, MODEL, TENSORS, SCALARS = "config.json", "model.safetensors", "state.safetensors", "state.json"
LIST_OF_NUMBERS = re.compile(r"\[\n[-+\d.eE,\s]+\]")
JSON_LIMIT = 64 << 20
"""Bytes of JSON that are read at most: a config or history is a few kilobytes, a class list some hundred."""


@dataclass(frozen=True)
class Checkpoint:
    folder: Path
    config: dict[str, Any]  # {"schema", "train", "model"}
    model: dict[str, Tensor]
    tensors: dict[str, Tensor]
    scalars: dict[str, Any]


def save(
    run: Path,
    step: int,
    config: Mapping[str, Any],
    model: Mapping[str, Tensor],
    tensors: Mapping[str, Tensor],
    scalars: Mapping[str, Any],
) -> Path:
    """Write RUN/checkpoints/step-N, whole or not at all."""
    folder = run / "checkpoints" / f"step-{step:08d}"
    partial = folder.with_name(f".{folder.name}.{os.getpid()}.partial")
    header = {"protoadapt": json.dumps(config["model"])}
    files = {
        CONFIG: json.dumps({"schema": SCHEMA, **config}, indent=1).encode(),
        MODEL: bytes_of(_plain(model), header),
        TENSORS: bytes_of(_plain(tensors)),
    }
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    digests[SCALARS] = _digest_of(scalars)
    files[SCALARS] = json.dumps({**scalars, "sha256": digests}, indent=1).encode()
    try:
        partial.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            _write_synced(partial / name, content)
        _sync_folder(partial)
        if folder.exists():  # the same step once more; the old one goes when checkpoints are pruned
            folder.rename(folder.with_name(f".{folder.name}.old.partial"))
        partial.rename(folder)
        _sync_folder(folder.parent)
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        last = latest(run)
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        raise UserError(
            f"the checkpoint {folder.name} could not be written to {str(run)!r} "
            f"({'no space is left' if full else error.strerror or error}): make room and continue with --resume; "
            f"the last good checkpoint is {last.name if last else 'none'}"
        ) from error
    return folder


def write_json(path: Path, value: Any) -> None:
    """One JSON file, whole or not at all; long lists of numbers take one line each."""
    text = LIST_OF_NUMBERS.sub(lambda found: " ".join(found[0].split()), json.dumps(value, indent=1))
    with written_whole(path) as partial:
        _write_synced(partial, text.encode() + b"\n")


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
        return run / "checkpoints" / f"step-{int(_read_json(path)['step']):08d}"
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{str(path)!r} is damaged: remove it, and the last checkpoint is taken") from error


def prune(run: Path, keep: Iterable[Path | None]) -> None:
    """Remove all checkpoints but the last two and those in `keep`, and what a killed run left half-written."""
    kept = {*all_of(run)[-2:], *keep}
    for old in [*all_of(run), *(run / "checkpoints").glob(".step-*.partial")]:
        if old not in kept:
            shutil.rmtree(old, ignore_errors=True)


def load(folder: Path) -> Checkpoint:
    """A checkpoint, every file checked against its checksum."""
    scalars = _read_json(folder / SCALARS)
    digests = scalars.pop("sha256", None)
    if not isinstance(digests, dict) or digests.get(SCALARS) != _digest_of(scalars):
        raise _damaged(folder / SCALARS)
    content = {name: _read(folder / name) for name in (CONFIG, MODEL, TENSORS)}
    for name, found in content.items():
        if hashlib.sha256(found).hexdigest() != digests.get(name):
            raise _damaged(folder / name)
    config = json.loads(content[CONFIG])
    try:
        return Checkpoint(folder, config, tensors_from(content[MODEL]), tensors_from(content[TENSORS]), scalars)
    except SafetensorError as error:
        raise _damaged(folder / MODEL) from error


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
        _write_synced(partial, bytes_of(_plain(weights), {"protoadapt": json.dumps(dict(about))}))


def _plain(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """On the host, each with its own memory in plain order, as safetensors wants them."""
    return {name: t.detach().to("cpu", copy=True, memory_format=torch.contiguous_format) for name, t in tensors.items()}


def _write_synced(path: Path, content: bytes) -> None:
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise _damaged(path) from error


def _read_json(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > JSON_LIMIT:
            raise _damaged(path)
        value = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise _damaged(path) from error
    if not isinstance(value, dict):
        raise _damaged(path)
    return value


def _digest_of(scalars: Mapping[str, Any]) -> str:
    """Of counters and history whatever their layout: a run must not go on from a count that was changed by hand."""
    return hashlib.sha256(json.dumps(scalars).encode()).hexdigest()


def _damaged(path: Path) -> UserError:
    return UserError(
        f"{str(path)!r} is missing, truncated or damaged: remove the folder {path.parent.name!r} to go on from the "
        f"checkpoint before it"
    )
