"""Extracting a manifest: every shard becomes a file of features. Correct files are kept, the others are made."""

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from protoadapt.core.errors import UserError, no_such, whole_number
from protoadapt.core.files import file_cell, sweep, written_whole
from protoadapt.vision import networks
from protoadapt.vision.network_metadata import MOST_VIEWS
from protoadapt.vision.networks.engines import TORCH
from protoadapt.vision.shards import local, ray_engine, shard_files
from protoadapt.vision.shards.make import Job, Made
from protoadapt.vision.shards.manifest import Manifest

BROKEN = ["name", "reason", "shard", "row"]

ENGINES: dict[str, Callable[[Job, Sequence[int], int | None], Iterator[Made]]] = {
    "local": local.make_all,
    "ray": ray_engine.make_all,
}


@dataclass
class Done:
    """The progress of an extraction; `damaged` lists shard files that were incomplete and are made again."""

    shards: int  # of this part
    pictures: int
    kept: int = 0  # shards that were there and correct
    kept_pictures: int = 0
    made: int = 0
    made_pictures: int = 0
    broken: int = 0  # unreadable pictures, in all shards of this part
    damaged: list[str] = field(default_factory=list)


def extract(
    model: str | Path,
    manifest: Manifest,
    out: Path,
    *,
    part: tuple[int, int] = (0, 1),
    engine: str = "local",
    workers: int | None = None,
    views: int = 1,
    device: str = "cpu",
    on_progress: Callable[[Done], None] = lambda done: None,
) -> Done:
    """Embed the pictures of a manifest, one file per shard (see `shard_files`). Run it again to continue.

    `part` = (i, n) takes every n-th shard from i, for one of n processes; `workers` is one per core by default;
    `on_progress` is called after each shard.
    """
    if engine not in ENGINES:
        raise no_such("engine", engine, ENGINES)
    whole_number("--views", views, 1, MOST_VIEWS)
    if workers is not None:
        whole_number("--workers", workers, 1)
    first, of = part
    if not 0 <= first < of:
        raise UserError(f"--shard is {first}/{of}: give a part from 0 to {of - 1}")
    on_cpu = torch.device(device).type == "cpu"
    # A folder is continued by the engine that began it.
    _, metadata = networks.load(model, "cpu", shard_files.recorded_engine(out) if on_cpu else TORCH)
    shard_files.claim(out, metadata, manifest, views)
    sweep(out)
    job = Job(model, manifest, out, views, device, metadata["size"], metadata.get("resize"), metadata.get("engine"))
    numbers = range(first, len(manifest.shards), of)
    done = Done(len(numbers), sum(manifest.shards[n].pictures for n in numbers))
    missing = []
    for number in numbers:
        header = _existing(job, number, metadata, done.damaged)
        if header is None:
            missing.append(number)
        else:
            done.kept += 1
            done.kept_pictures += manifest.shards[number].pictures
            done.broken += len(header.metadata["broken"])
        on_progress(done)
    for made in ENGINES[engine](job, missing, workers) if missing else ():
        done.made += 1
        done.made_pictures += made.pictures
        done.broken += made.broken
        on_progress(done)
    return done


def _existing(job: Job, number: int, metadata: Mapping[str, Any], damaged: list[str]) -> shard_files.Header | None:
    """The header of a shard's file if it is there and correct; None if it has to be made."""
    path = shard_files.shard_path(job.out, number)
    if not path.exists():
        return None
    try:
        header = shard_files.check(path)
        common = shard_files.identity(metadata, job.manifest, job.views)
        expected = {key: common.get(key) for key in ("weights", "engine", "views")}
        expected |= {"of": job.manifest.shards[number].sha256, "shard": number}
        for key, value in expected.items():
            if header.metadata.get(key) != value:
                raise UserError(
                    f"{str(path)!r} is of another model or manifest ({key} {header.metadata.get(key)}, not {value}): "
                    f"remove it, or use another --out"
                )
    except shard_files.Damaged as error:
        damaged.append(str(error))
        return None
    return header


def list_broken(out: Path, numbers: Sequence[int], path: Path) -> int:
    """Write a csv of the unreadable pictures: name, reason, shard and row. Returns how many; without any, no file."""
    try:
        pictures = [
            (file_cell(broken["name"]), broken["reason"], number, broken["row"])
            for number in numbers
            for broken in shard_files.read_header(shard_files.shard_path(out, number)).metadata["broken"]
        ]
    except shard_files.Damaged as error:
        raise UserError(
            f"a shard in {str(out)!r} was removed or damaged while this ran, {error}: run the same command again"
        ) from error
    ours = not path.exists() or (path.is_file() and _first_line(path) == ",".join(BROKEN).encode())
    if not pictures:
        if ours:
            path.unlink(missing_ok=True)
        return 0
    if not ours:
        raise UserError(f"{str(path)!r} is not a list of unreadable pictures and is kept: move it, and run this again")
    with (
        written_whole(path) as partial,
        open(partial, "w", encoding="utf-8", errors="surrogateescape", newline="") as file,
    ):
        text = csv.writer(file, lineterminator="\n")
        text.writerow(BROKEN)
        text.writerows(pictures)
    return len(pictures)


def _first_line(path: Path) -> bytes:
    with open(path, "rb") as file:
        return file.readline(100).rstrip()
