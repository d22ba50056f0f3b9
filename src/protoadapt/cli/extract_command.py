"""`protoadapt extract`."""

import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from protoadapt.cli import options
from protoadapt.cli.options import option
from protoadapt.cli.progress import bars, say, say_unread
from protoadapt.core.errors import UserError, count
from protoadapt.core.files import check_output, check_output_folder

if TYPE_CHECKING:
    from protoadapt.vision.pictures.split import Images

_FEATURES = re.compile(rb'"features":\{"dtype"')
"""What shows that a .safetensors file holds features."""


def extract_command(
    model: options.Model,
    out: Annotated[Path, option("feature file .safetensors; with --manifest, a directory", "PATH")],
    dataset: options.DatasetName = "",
    data_dir: options.DataDir = None,
    split: Annotated[str | None, option("base, val or novel (or train, val, test); default: novel")] = None,
    images: Annotated[Path | None, option("your pictures, one folder per class; replaces --dataset", "DIR")] = None,
    manifest: Annotated[Path | None, option("list from `protoadapt manifest`; replaces --dataset", "FILE")] = None,
    crop: Annotated[str | None, option("none, or box: cut to the boxes of CUB (default: as in training)")] = None,
    views: Annotated[int, option("views to average per picture: 1 itself, 2 adds its mirror image, …")] = 1,
    pooling: Annotated[float, option("exponent p of generalised-mean (GeM) pooling, 1 to 8; 1: plain average")] = 1.0,
    no_base_mean: Annotated[
        bool, option("do not store mean and covariance of the base classes", flag="--no-base-mean")
    ] = False,
    maps: Annotated[
        bool, option("also store the features of every place, for heads that look at them", flag="--maps")
    ] = False,
    cache: options.Cache = None,
    skip_corrupt: options.SkipCorrupt = False,
    device: options.Device = "auto",
    shard: Annotated[
        str | None, option("with --manifest: the shards of machine I of N, such as 0/4, 1/4, … on 4", "I/N")
    ] = None,
    engine: Annotated[str | None, option("with --manifest: local (default), or ray on a cluster")] = None,
    workers: Annotated[int | None, option("with --manifest: workers (default: one per core)")] = None,
) -> None:
    """Compute the features of pictures and store them.

    From a dataset's split or your own class folders it writes one file, for `evaluate` and `compare`. From a manifest
    it writes a directory with a part per shard, for `label --features`; finished parts are kept when it runs again.
    """
    places = {"--dataset": dataset, "--images": images, "--manifest": manifest}
    if len(given := [option for option, place in places.items() if place]) != 1:
        problem = f"{' and '.join(given)} are given together" if given else "no pictures are given"
        raise UserError(f"{problem}: give one of --dataset NAME with --data DIR, --images DIR, or --manifest FILE")
    of_dataset: dict[str, Any] = {"--split": split, "--data": data_dir, "--no-base-mean": no_base_mean}
    of_pictures: dict[str, Any] = {"--crop": crop, "--pooling": pooling != 1, "--maps": maps, "--cache": cache}
    of_pictures["--skip-corrupt"] = skip_corrupt
    of_manifest: dict[str, Any] = {"--shard": shard, "--engine": engine, "--workers": workers}
    without = {"--dataset": of_manifest, "--images": of_dataset | of_manifest, "--manifest": of_dataset | of_pictures}
    options.refuse_unused(without[given[0]], f"with {given[0]}")
    if manifest:
        return _extract_manifest(model, manifest, out, shard or "0/1", engine or "local", workers, views, device)
    if check_output(out, model if Path(model).is_file() else None, kind=_FEATURES).suffix != ".safetensors":
        raise UserError(f"features are written as safetensors, not {out.name!r}: end the name in .safetensors")
    from protoadapt.core.features import save_features
    from protoadapt.training import datasets
    from protoadapt.training.datasets.registry import search
    from protoadapt.vision import embed, extraction, networks

    network, metadata = networks.load(model, options.find_device(device))
    embed.check_pooling(network, pooling, maps)  # before pictures are decoded
    if images:
        dataset, split, data_dir, no_base_mean = "folder", "all", images, True
        cache = cache or out.parent / ".protoadapt-cache"  # nothing is written among a user's own pictures
    crop = crop or (metadata["crop"] if dataset == metadata["dataset"] else "none")
    reading: dict[str, Any] = {"size": metadata["size"], "resize": metadata.get("resize"), "crop": crop}
    reading |= {"cache_dir": cache, "on_corrupt": "skip" if skip_corrupt else "fatal"}
    with bars() as report:

        def load(part: str) -> "Images":
            on_progress = partial(report, f"{part} pictures decoded")
            loaded = datasets.load_images(dataset, part, data_dir, **reading, on_progress=on_progress)
            say_unread(loaded)
            return loaded

        chosen = load(split or "novel")
        base = None
        if not no_base_mean and (data_dir is None or search(chosen.name, "base", data_dir, crop) is not None):
            base = load("base")
        on_progress = partial(report, "views embedded", total=(len(chosen) + len(base or ())) * views)
        settings: dict[str, Any] = {"views": views, "pooling": pooling, "maps": maps, "on_progress": on_progress}
        table = extraction.extract_features(network, metadata, chosen, base, **settings)
    save_features(out, table)
    rows, dim = table.features.shape
    print(f"{rows:,} rows × {dim} of {len(chosen.class_names)} classes: {out}")


def _extract_manifest(
    model: str, manifest: Path, out: Path, shard: str, engine: str, workers: int | None, views: int, device: str
) -> None:
    """Features of a manifest's pictures, one part per shard; parts that are there and whole are kept."""
    from protoadapt.vision.shards import extract
    from protoadapt.vision.shards.manifest import load_manifest

    found = re.fullmatch(r"([0-9]+)/([0-9]+)", shard)  # 3/64: the fourth of 64 machines
    if not found or int(found[1]) >= int(found[2]):
        raise UserError(f"--shard is {shard!r}: give i/n with i from 0 to n - 1, such as 0/64")
    machine = i, n = int(found[1]), int(found[2])
    check_output_folder(out)
    device = options.find_device(device)
    listed = load_manifest(manifest)

    def show(done: extract.Done) -> None:
        report("pictures" if done.made else "pictures kept", done.kept_pictures + done.made_pictures, done.pictures)

    with bars(lines=True) as report:
        given: dict[str, Any] = {"engine": engine, "workers": workers, "views": views, "device": device}
        done = extract.extract_parts(model, listed, out, machine=machine, **given, on_progress=show)
    for damaged in done.damaged:
        say(f"damaged, made again: {damaged}")
    listing = out / ("broken.csv" if n == 1 else f"broken-{i}-of-{n}.csv")
    broken = extract.list_broken(out, range(i, len(listed.shards), n), listing)
    if broken and broken == done.pictures and n == 1:  # a script must not go on with no rows
        raise UserError(f"not one picture can be read, see {listing}: repair them and remove their parts from {out}")
    if broken:
        have = "has" if broken == 1 else "have"
        say(f"{broken:,} of {count(done.pictures, 'picture')} cannot be read and {have} no row: {listing}")
    rows = count(done.pictures - broken, "row")
    print(f"{count(done.made, 'part')} made, {done.kept:,} kept, {rows}: {out}")
