"""A manifest becomes a table of features, a part per shard. Parts that are there and correct are kept."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from protoadapt.core import parts
from protoadapt.core.errors import UserError, no_such, whole_number
from protoadapt.core.files import check_ours, csv_text, file_cell, sweep, written_whole
from protoadapt.core.parts import INDEX, Damaged, Part
from protoadapt.vision import networks
from protoadapt.vision.network_metadata import MOST_VIEWS, input_errors
from protoadapt.vision.networks.engines import TORCH
from protoadapt.vision.shards.local import make_locally
from protoadapt.vision.shards.make import Job, Made, made_by
from protoadapt.vision.shards.manifest import Manifest
from protoadapt.vision.shards.ray_engine import make_on_ray

BROKEN = ("name", "reason", "shard", "row")
OURS = re.compile(rf"\A{','.join(BROKEN)}\r?\n".encode())
ENGINES: dict[str, Callable[[Job, Sequence[int], int | None], Iterator[Made]]] = {
    "local": make_locally,
    "ray": make_on_ray,
}


@dataclass
class Done:
    """The progress of an extraction; `damaged` lists parts that were incomplete and are made again."""

    shards: int  # of this share
    pictures: int
    kept: int = 0  # parts that were there and correct
    kept_pictures: int = 0
    made: int = 0
    made_pictures: int = 0
    broken: int = 0  # unreadable pictures, in all shards of this share
    damaged: list[str] = field(default_factory=list)


def extract_parts(
    model: str | Path,
    manifest: Manifest,
    out: Path,
    *,
    share: tuple[int, int] = (0, 1),
    engine: str = "local",
    workers: int | None = None,
    views: int = 1,
    device: str = "cpu",
    on_progress: Callable[[Done], None] = lambda done: None,
) -> Done:
    """Embeds the pictures of a manifest into a folder of parts (`core.parts`). Run it again to continue.

    `share` = (i, n) takes every n-th shard from i, for one of n machines; `engine` is "local" or "ray"; `workers` is
    one per core by default; `on_progress` is called after each part.

    >>> extract_parts("lite0", load_manifest("all.jsonl"), Path("features")).made     # doctest: +SKIP
    128
    """
    if engine not in ENGINES:
        raise no_such("engine", engine, ENGINES)
    whole_number("--views", views, 1, MOST_VIEWS)
    if workers is not None:
        whole_number("--workers", workers, 1)
    first, of = share
    if not 0 <= first < of:
        raise UserError(f"--shard is {first}/{of}: give a part from 0 to {of - 1}")
    # A folder is continued by the engine that began it.
    begun = parts.read_index(out)["engine"] if (out / INDEX).exists() else None
    _, metadata = networks.load(model, "cpu", begun if torch.device(device).type == "cpu" else TORCH)
    made_so = made_by(metadata, manifest, views)
    _claim(out, made_so, metadata, manifest)
    sweep(out)
    job = Job(model, manifest, out, views, device, metadata["size"], metadata.get("resize"), metadata.get("engine"))
    numbers = range(first, len(manifest.shards), of)
    done = Done(len(numbers), sum(manifest.shards[n].pictures for n in numbers))
    missing = []
    for number in numbers:
        part = _existing(job, number, made_so, done.damaged)
        if part is None:
            missing.append(number)
        else:
            done.kept += 1
            done.kept_pictures += manifest.shards[number].pictures
            done.broken += len(part.record["broken"])
        on_progress(done)
    for made in ENGINES[engine](job, missing, workers) if missing else ():
        done.made += 1
        done.made_pictures += made.pictures
        done.broken += made.broken
        on_progress(done)
    return done


def _claim(out: Path, made_so: Mapping[str, Any], metadata: Mapping[str, Any], manifest: Manifest) -> None:
    """Writes the index of a new folder. Raises UserError where the folder holds features made in another way."""
    if not (out / INDEX).exists():
        keys = ("model", "weights", "backbone", "size", "mean", "std", "dataset")
        about = {"model": {key: metadata.get(key) for key in keys}, "root": str(manifest.root)}
        parts.write_index(out, {**made_so, **about, "pictures": manifest.pictures, "parts": len(manifest.shards)})
    before = parts.read_index(out)
    kinds = {"weights": "another model", "manifest": "another manifest", "views": "other --views"}
    for key, what in (kinds | {"engine": "another engine"}).items():
        if before[key] != made_so[key]:
            other = "use another --out" + (", or the --device of before" if key == "engine" else "")
            raise UserError(f"{str(out)!r} holds features of {what} ({before[key]}, now {made_so[key]}): {other}")


def _existing(job: Job, number: int, made_so: Mapping[str, Any], damaged: list[str]) -> Part | None:
    """The part of a shard if it is there and correct; None if it has to be made."""
    path = parts.part_file(job.out, number)
    if not path.with_suffix(".jsonl").exists():  # written last
        return None
    try:
        part = parts.check_part(job.out, number)
    except Damaged as error:
        damaged.append(str(error))
        return None
    for key, value in {**made_so, "of": job.manifest.shards[number].sha256, "part": number}.items():
        if part.record.get(key) != value:
            raise UserError(
                f"{str(path)!r} is of another model or manifest ({key} {part.record.get(key)}, not {value}): remove "
                f"it, or use another --out"
            )
    return part


def open_features(folder: Path) -> parts.PartsTable:
    """Opens a table that `extract_parts` made. Raises UserError where it is not whole, or says nothing of its network.

    >>> open_features(Path("features")).index["model"]["size"]                        # doctest: +SKIP
    224
    """
    table = parts.open_parts(folder)
    if input_errors(table.index["model"]):
        raise UserError(f"{str(folder / INDEX)!r} is damaged: remove it and run protoadapt extract again")
    return table


def list_broken(out: Path, numbers: Sequence[int], path: Path) -> int:
    """Writes a csv of the unreadable pictures: name, reason, shard and row. Returns how many; without any, no file."""
    try:
        pictures = [
            (file_cell(broken["name"]), broken["reason"], number, broken["row"])
            for number in numbers
            for broken in parts.read_part(out, number).record["broken"]
        ]
    except Damaged as error:
        raise UserError(
            f"a part in {str(out)!r} was removed or damaged while this ran, {error}: run the same command again"
        ) from error
    if pictures:
        check_ours(path, OURS)
        with written_whole(path) as partial:
            partial.write_bytes(csv_text([BROKEN, *pictures]).encode(errors="surrogateescape"))
    elif path.is_file() and OURS.match(path.read_bytes()):
        path.unlink()
    return len(pictures)
