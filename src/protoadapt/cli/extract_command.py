"""`protoadapt extract`."""

import re
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from protoadapt.cli.options import (
    Cache,
    DataDir,
    DatasetName,
    Device,
    Model,
    SkipCorrupt,
    find_device,
    option,
    refuse_unused,
)
from protoadapt.cli.progress import bars, say, say_unread
from protoadapt.core.errors import UserError, count
from protoadapt.core.files import check_output, check_output_folder

if TYPE_CHECKING:
    from protoadapt.vision.pictures.split import Images


def extract_command(
    model: Model,
    out: Annotated[Path, option("feature file .safetensors; with --manifest, a directory", "PATH")],
    dataset: DatasetName = "",
    data_dir: DataDir = None,
    split: Annotated[
        str | None, option("split of the dataset: base, val or novel (or train, val, test); default: novel")
    ] = None,
    images: Annotated[
        Path | None, option("your own pictures, in one folder per class; replaces --dataset", "DIR")
    ] = None,
    manifest: Annotated[Path | None, option("list from `protoadapt manifest`; replaces --dataset", "FILE")] = None,
    crop: Annotated[str, option("none, or box: cut to the boxes of CUB (default: as in training)")] = "",
    views: Annotated[int, option("views to average per picture: 1 itself, 2 adds its mirror image, …")] = 1,
    store: Annotated[
        int | None,
        option(
            "cut the windows of --views 3 and more from pictures of this side (default: the network's input)", "SIDE"
        ),
    ] = None,
    pooling: Annotated[float, option("exponent p of generalised-mean (GeM) pooling, 1 to 8; 1: plain average")] = 1.0,
    no_base_mean: Annotated[
        bool,
        option(
            "do not store the mean and covariance of the base classes (default: where their pictures are on disk)",
            flag="--no-base-mean",
        ),
    ] = False,
    maps: Annotated[
        bool,
        option(
            "also store the features of every place of the last stage, for heads that look at them (ResNet-12: 26 KB)",
            flag="--maps",
        ),
    ] = False,
    cache: Cache = None,
    skip_corrupt: SkipCorrupt = False,
    device: Device = "auto",
    shard: Annotated[
        str | None, option("with --manifest: part I of N, such as 0/4, 1/4, … on four machines", "I/N")
    ] = None,
    engine: Annotated[
        str | None, option("with --manifest: local (processes, the default), or ray on a cluster")
    ] = None,
    workers: Annotated[int | None, option("with --manifest: processes (default: one per core)")] = None,
) -> None:
    """Compute the features of pictures and store them.

    From a dataset's split or your own class folders it writes one file, for `evaluate` and `compare`. From a manifest
    it writes a directory of shards, for `label --features`; finished shards are kept when the command runs again.
    """
    places = {"--dataset": dataset, "--images": images, "--manifest": manifest}
    if len(given := [option for option, place in places.items() if place]) != 1:
        problem = f"{' and '.join(given)} are given together" if given else "no pictures are given"
        raise UserError(f"{problem}: give one of --dataset NAME with --data DIR, --images DIR, or --manifest FILE")
    of_dataset = {"--split": split, "--data": data_dir, "--no-base-mean": no_base_mean}
    of_pictures: dict[str, object] = {"--crop": crop or None, "--store": store, "--maps": maps}
    of_pictures |= {"--cache": cache, "--skip-corrupt": skip_corrupt}
    if images or manifest:
        refuse_unused(of_dataset, f"with {given[0]}")
    if manifest:
        refuse_unused(of_pictures | {"--pooling": pooling != 1}, "with --manifest")
        device = find_device(device)
        return extract_manifest(model, manifest, out, shard or "0/1", engine or "local", workers, views, device)
    refuse_unused({"--shard": shard, "--engine": engine, "--workers": workers}, "without --manifest")
    if check_output(out, model if Path(model).is_file() else None).suffix != ".safetensors":
        raise UserError(f"features are written as safetensors, not {out.name!r}: end the name in .safetensors")
    from protoadapt.core.features import save_features
    from protoadapt.core.methods import NEED_BASE_MEAN
    from protoadapt.training import datasets
    from protoadapt.training.datasets.registry import search
    from protoadapt.vision import embed, extraction, networks

    if store is not None and views < 3:
        raise UserError(
            f"--store is for windows, and --views {views} has none: give --views 3 or more, or leave it out"
        )
    network, metadata = networks.load(model, find_device(device))
    embed.check_pooling(network, pooling, maps)  # before pictures are decoded
    if images:
        dataset, split, data_dir, no_base_mean = "folder", "all", images, True
        cache = cache or out.parent / ".protoadapt-cache"  # nothing is written among a user's own pictures
    crop = crop or (metadata["crop"] if dataset == metadata["dataset"] else "none")
    options: dict[str, Any] = {"size": metadata["size"], "resize": metadata.get("resize"), "store": store, "crop": crop}
    options |= {"cache_dir": cache, "on_corrupt": "skip" if skip_corrupt else "fatal"}
    with bars() as report:

        def load(part: str) -> "Images":
            on_progress = partial(report, f"{part} pictures decoded")
            return datasets.load_images(dataset, part, data_dir, **options, on_progress=on_progress)

        chosen, base = load(split or "novel"), None
        if not no_base_mean:
            if data_dir is None or search(chosen.name, "base", data_dir, crop) is not None:
                base = load("base")
            else:
                needed = " and ".join(sorted(NEED_BASE_MEAN))
                say(f"note: no base classes here, so no base mean and covariance, which {needed} need")
        table = extraction.extract_features(
            network,
            metadata,
            chosen,
            base,
            views=views,
            pooling=pooling,
            maps=maps,
            on_progress=partial(report, "views embedded", total=(len(chosen) + len(base or ())) * views),
        )
    for loaded in filter(None, (chosen, base)):
        say_unread(loaded)
    save_features(out, table)
    rows, dim = table.features.shape
    print(f"{rows:,} rows × {dim} of {len(chosen.class_names)} classes: {out}")


def extract_manifest(
    model: str | Path, manifest: Path, out: Path, shard: str, engine: str, workers: int | None, views: int, device: str
) -> None:
    """Features of a manifest's pictures, one file per shard; shards that are there and whole are kept."""
    from protoadapt.vision import shards

    check_output_folder(out)
    listed, part = shards.load_manifest(manifest), parse_part(shard)
    with bars(lines=True) as report:
        done = shards.extract_parts(
            model,
            listed,
            out,
            share=part,
            engine=engine,
            workers=workers,
            views=views,
            device=device,
            on_progress=lambda d: report("pictures", d.kept_pictures + d.made_pictures, d.pictures, d.made_pictures),
        )
    for damaged in done.damaged:
        say(f"damaged, made again: {damaged}")
    listing = out / ("broken.csv" if part == (0, 1) else f"broken-{part[0]}-of-{part[1]}.csv")
    broken = shards.list_broken(out, range(part[0], len(listed.shards), part[1]), listing)
    if broken and broken == done.pictures and part == (0, 1):  # a script must not go on with no rows
        say(
            f"error: not one picture can be read, see {listing}: repair them, remove their shards from {out} and run "
            f"the same command again"
        )
        sys.exit(1)
    if broken:
        have = "has" if broken == 1 else "have"
        pictures = count(done.pictures, "picture")
        say(f"{broken:,} of {pictures} cannot be read and {have} no row: {listing}")
    rows = count(done.pictures - broken, "row")
    print(f"{count(done.made, 'shard')} made, {done.kept:,} kept, {rows}: {out}")


def parse_part(text: str) -> tuple[int, int]:
    """'3/64' → (3, 64): the fourth of 64 parts."""
    found = re.fullmatch(r"([0-9]+)/([0-9]+)", text)
    if not found or int(found[1]) >= int(found[2]):
        raise UserError(f"--shard is {text!r}: give i/n with i from 0 to n - 1, such as 0/64")
    return int(found[1]), int(found[2])
