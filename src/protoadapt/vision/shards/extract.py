"""A manifest becomes a table of features, a part per shard. Parts that are there and correct are kept."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

from protoadapt.core import parts
from protoadapt.core.errors import UserError, no_such, whole_number
from protoadapt.core.files import check_output, csv_text, file_cell, write_bytes
from protoadapt.core.parts import INDEX, Damaged
from protoadapt.vision import networks
from protoadapt.vision.networks.cards import MOST_VIEWS
from protoadapt.vision.networks.engines import TORCH
from protoadapt.vision.shards.make import Job, make_locally
from protoadapt.vision.shards.manifest import Manifest
from protoadapt.vision.shards.ray_engine import make_on_ray

_COLUMNS = ("name", "reason", "shard", "row")
_OURS = re.compile(rf"\A{','.join(_COLUMNS)}\r?\n".encode())
ENGINES: dict[str, Callable[[Job, Sequence[int], int | None], Iterator[int]]] = {
    "local": make_locally,
    "ray": make_on_ray,
}


@dataclass
class Done:
    """The progress of an extraction; `damaged` lists parts that were incomplete or another's, and are made again."""

    pictures: int  # of this machine's shards
    kept: int = 0  # parts that were there and correct
    kept_pictures: int = 0
    made: int = 0
    made_pictures: int = 0
    damaged: list[str] = field(default_factory=list)


def extract_parts(
    model: str | Path,
    manifest: Manifest,
    out: Path,
    *,
    machine: tuple[int, int] = (0, 1),
    engine: str = "local",
    workers: int | None = None,
    views: int = 1,
    device: str = "cpu",
    on_progress: Callable[[Done], None] = lambda done: None,
) -> Done:
    """Embeds the pictures of a manifest into a folder of parts (`core.parts`). Run it again to continue.

    `machine` = (i, n) takes every n-th shard from i, for one of n machines; `engine` is "local" or "ray"; `workers` is
    one per core by default; `on_progress` is called after each part.

    >>> extract_parts("lite0", load_manifest("all.jsonl"), Path("features")).made     # doctest: +SKIP
    128
    """
    if engine not in ENGINES:
        raise no_such("engine", engine, ENGINES)
    whole_number("--views", views, 1, MOST_VIEWS)
    if workers is not None:
        whole_number("--workers", workers, 1)
    # A folder is continued by the engine that began it.
    begun = parts.read_index(out)["engine"] if (out / INDEX).exists() else None
    _, metadata = networks.load(model, "cpu", begun if torch.device(device).type == "cpu" else TORCH)
    job = Job(model, metadata, manifest, out, views, device)
    _claim(job)
    numbers = range(len(manifest.shards))[machine[0] :: machine[1]]
    pictures = {number: manifest.shards[number].pictures for number in numbers}
    done = Done(sum(pictures.values()))
    missing = []
    for number in pictures:
        if _is_made(job, number, done.damaged):
            done.kept += 1
            done.kept_pictures += pictures[number]
        else:
            missing.append(number)
        on_progress(done)
    if not missing:
        return done
    for number in ENGINES[engine](job, missing, workers):
        done.made += 1
        done.made_pictures += pictures[number]
        on_progress(done)
    return done


def _claim(job: Job) -> None:
    """Writes the index of a new folder. Raises UserError where the folder holds features made in another way."""
    manifest = job.manifest
    if not (job.out / INDEX).exists():
        if others := [one for one in job.out.glob("part-*.npy") if not one.with_suffix(".jsonl").exists()]:
            raise UserError(f"{str(others[0])!r} is of something else and would be replaced: use another --out")
        keys = ("model", "weights", "backbone", "size", "mean", "std", "dataset")
        about = {"model": {key: job.metadata.get(key) for key in keys}, "root": str(manifest.root)}
        parts.write_index(
            job.out, {**job.made_so, **about, "pictures": manifest.pictures, "parts": len(manifest.shards)}
        )
    before = parts.read_index(job.out)
    for key, value in job.made_so.items():
        if before[key] != value:
            raise UserError(f"{str(job.out)!r} holds features with {key} {before[key]}, not {value}: use another --out")


def _is_made(job: Job, number: int, damaged: list[str]) -> bool:
    """Whether the part of a shard is there and correct."""
    path = parts.part_file(job.out, number)
    if not path.with_suffix(".jsonl").exists():  # written last
        return False
    wanted = {**job.made_so, "of": job.manifest.shards[number].sha256}
    try:
        record = parts.check_part(job.out, number).record
        why = None if wanted.items() <= record.items() else "it is of another model or manifest"
    except Damaged as error:
        why = str(error.__cause__)
    if why:
        damaged.append(f"{path.name}: {why}")
    return not why


def list_broken(out: Path, numbers: Sequence[int], path: Path) -> int:
    """Writes a csv of the unreadable pictures: name, reason, shard and row. Returns how many; without any, no file."""
    pictures = [
        (file_cell(broken["name"]), broken["reason"], number, broken["row"])
        for number in numbers
        for broken in parts.read_part(out, number).record["broken"]
    ]
    if pictures:
        check_output(path, kind=_OURS)
        write_bytes(path, csv_text([_COLUMNS, *pictures]).encode(errors="surrogateescape"))
    elif path.is_file() and _OURS.match(path.read_bytes()):
        path.unlink()
    return len(pictures)
