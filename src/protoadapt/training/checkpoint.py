"""Checkpoints: folders that are complete or absent; the model file in each can be used alone.

    RUN/checkpoints/step-00001200/
        config.json         training config and model metadata: backbone, input mean and std, class names
        model.safetensors   the weights to use (the weight average); this file alone is a model
        state.safetensors   what training needs to continue: backbone, heads and the tensors of the optimiser
        state.json          counters and history
        SHA256SUMS          checksums of the four files, as `sha256sum -c` reads them
    RUN/best.json           the step of the best checkpoint

A folder is written under a temporary name, synced to disk and renamed. There are no generator states: every random
number of a run is a function of its seed and of the counters.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import load as tensors_from
from safetensors.torch import save as bytes_of
from torch import Tensor

from protoadapt.core.errors import UserError, intact
from protoadapt.core.files import write_synced
from protoadapt.vision.networks.model_files import MODEL, all_of, latest, plain

Json = Mapping[str, Any]
Tensors = Mapping[str, Tensor]
_SCHEMA = "protoadapt-checkpoint/1"
CONFIG, TENSORS, SCALARS, SUMS = "config.json", "state.safetensors", "state.json", "SHA256SUMS"


@dataclass(frozen=True)
class Checkpoint:
    """The content of one checkpoint folder."""

    folder: Path
    config: dict[str, Any]  # {"schema", "train", "model"}
    model: dict[str, Tensor]
    tensors: dict[str, Tensor]
    scalars: dict[str, Any]


def save(run: Path, step: int, config: Json, model: Tensors, tensors: Tensors, scalars: Json) -> Path:
    """Write RUN/checkpoints/step-N completely or not at all. Returns the folder.

    config {"train", "model", …} · model: weights to use · tensors: training state · scalars: counters and history
    """
    folder = run / "checkpoints" / f"step-{step:08d}"
    partial = folder.with_name(f".{folder.name}.{os.getpid()}.partial")
    header = {"protoadapt": json.dumps(config["model"])}
    files = {
        CONFIG: json.dumps({"schema": _SCHEMA, **config}, indent=1).encode(),
        MODEL: bytes_of(plain(model), header),
        TENSORS: bytes_of(plain(tensors)),
        SCALARS: json.dumps(scalars, indent=1).encode(),
    }
    files[SUMS] = "".join(_sum(name, content) for name, content in files.items()).encode()
    try:
        partial.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            write_synced(partial / name, content)
        _sync_folder(partial)
        if folder.exists():  # the same step again; the old one is removed by `prune`
            folder.rename(folder.with_name(f".{folder.name}.{os.getpid()}.old.partial"))
        partial.rename(folder)
        _sync_folder(folder.parent)
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        last = latest(run)
        raise UserError(
            f"the checkpoint {folder.name} could not be written to {str(run)!r} "
            f"({error.strerror or error}): free some space and continue with --resume; "
            f"the last good checkpoint is {last.name if last else 'none'}"
        ) from error
    return folder


def prune(run: Path, keep: Iterable[Path | None]) -> None:
    """Remove all checkpoints but the last two and those in `keep`, and partial folders of killed runs."""
    kept = {*all_of(run)[-2:], *keep}
    for old in [*all_of(run), *(run / "checkpoints").glob(".step-*.partial")]:
        if old not in kept:
            shutil.rmtree(old, ignore_errors=True)


def load_latest(run: Path) -> Checkpoint:
    """The last checkpoint of a run, every file checked against its checksum. Raises UserError where one is damaged."""
    folder = latest(run)
    files: dict[str, bytes] = {}
    if folder is None:
        raise UserError(f"there is no checkpoint in {str(run)!r} to resume from: start without --resume")
    for name in (SUMS, CONFIG, MODEL, TENSORS, SCALARS):
        file = folder / name
        files[name] = file.read_bytes() if file.is_file() else b""
        if name != SUMS and _sum(name, files[name]).encode() not in files[SUMS].splitlines(keepends=True):
            raise UserError(
                f"{str(file)!r} is missing, truncated or damaged, or {SUMS} beside it: remove the folder "
                f"{folder.name!r} to continue from the checkpoint before it"
            )
    with understood(folder):
        config, scalars = (json.loads(files[name]) for name in (CONFIG, SCALARS))
        return Checkpoint(folder, config, tensors_from(files[MODEL]), tensors_from(files[TENSORS]), scalars)


def understood(folder: Path) -> AbstractContextManager[None]:
    """Names a checkpoint whose content, of right checksums, is not what training writes."""
    problem = f"{str(folder)!r} does not hold what training writes"
    return intact(problem, "remove this folder to continue from the checkpoint before it")


def _sync_folder(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _sum(name: str, content: bytes) -> str:
    return f"{hashlib.sha256(content).hexdigest()}  {name}\n"
