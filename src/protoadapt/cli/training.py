"""Commands on pictures: data, train, extract, demo.

Training's libraries take seconds to load, so the commands that need them load them when they are called.
"""

import inspect
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from protoadapt.cli import scale
from protoadapt.cli.options import Cache, Device, Set, find_device, progress
from protoadapt.core.errors import UserError
from protoadapt.core.features import save_features
from protoadapt.core.files import check_output, check_output_folder
from protoadapt.training import datasets
from protoadapt.vision import embed, networks

if TYPE_CHECKING:
    from protoadapt.training import TrainConfig

DataDir = Annotated[Path | None, typer.Option("--data", metavar="DIR", help="the folder that holds the dataset")]
SkipCorrupt = Annotated[bool, typer.Option("--skip-corrupt", help="leave out pictures that cannot be read")]
Out = Annotated[Path, typer.Option(help="where the result goes")]


def demo(out: Annotated[Path, typer.Option(help="where tables and figures go")] = Path("demo")) -> None:
    """Train, evaluate and report on built-in pictures.

    A few minutes on two cores.
    """
    from protoadapt.cli import demonstration

    demonstration.run(out)


def data(
    dataset: Annotated[str, typer.Argument(help="mini-imagenet, tiered-imagenet, cifar-fs, fc100, cub, folder")],
    data_dir: DataDir = None,
    download: Annotated[bool, typer.Option("--download", help="fetch it from its official address")] = False,
) -> None:
    """Check a dataset on disk.

    What is there, what is missing, where it is officially had.
    """
    if download:
        if data_dir is None:
            raise UserError("a download needs a place: give --data DIR")
        datasets.download(dataset, data_dir)
    report = datasets.check(dataset, data_dir)
    print(report)
    if not report.complete:
        sys.exit(1)


def recipes() -> None:
    """The training recipes: command, time and result."""
    from protoadapt.training.recipes import RECIPES

    for name, function in RECIPES.items():
        print(f"{name}\n    " + inspect.getdoc(function).replace("\n", "\n    ") + "\n")  # type: ignore[union-attr]


def train(
    out: Out,
    recipe_name: Annotated[
        str, typer.Argument(metavar="RECIPE", help="a name that `protoadapt recipes` lists; not needed with --resume")
    ] = "",
    data_dir: DataDir = None,
    settings: Set = None,
    cache: Cache = None,
    skip_corrupt: SkipCorrupt = False,
    resume: Annotated[bool, typer.Option("--resume", help="go on from the last checkpoint, with its settings")] = False,
    accelerator: Annotated[str, typer.Option(help="auto, cpu, gpu")] = "auto",
    devices: Annotated[str, typer.Option(help="GPUs or processes on this machine: a number, or auto")] = "1",
    nodes: Annotated[int, typer.Option(help="machines")] = 1,
    strategy: Annotated[str, typer.Option(help="auto, ddp, … as in lightning-fabric")] = "auto",
    compiled: Annotated[bool | None, typer.Option("--compile/--no-compile", help="default: on a GPU")] = None,
) -> None:
    """Train an embedding on a dataset's base classes.

    The one that names the validation classes best is kept.
    """
    from protoadapt.training import load_splits
    from protoadapt.training import train as run_training

    check_output_folder(out)  # before the pictures are decoded
    config = _config(recipe_name, settings or [], out if resume else None)
    base, val = load_splits(config, data_dir, cache_dir=cache, on_corrupt="skip" if skip_corrupt else "fatal")
    if devices != "auto" and not (devices.isascii() and devices.isdigit() and 1 <= int(devices) <= 1024):
        raise UserError(f"--devices is {devices!r}: give a number from 1 to 1024, or auto")
    count = devices if devices == "auto" else int(devices)
    told = run_training(
        config,
        base,
        val,
        out,
        resume=resume,
        accelerator=accelerator,
        devices=count,
        num_nodes=nodes,
        strategy=strategy,
        compiled=compiled,
    )
    if not told["finished"]:
        print(f"not finished: continue with --resume ({out})")
    elif told["best"]:
        print(f"best: epoch {told['best']['epoch']}, validation score {told['best']['score']:.2f} ({out})")


def _config(recipe_name: str, settings: list[str], resumed: Path | None) -> "TrainConfig":
    """A recipe with its settings; a run that is resumed without any keeps its own."""
    from protoadapt.training import stored_config
    from protoadapt.training.recipes import recipe

    if resumed is None or settings:
        if not recipe_name:
            raise UserError("no recipe is named: give one that `protoadapt recipes` lists, such as hct_r")
        return recipe(recipe_name, settings)
    stored = stored_config(resumed)
    if recipe_name and recipe(recipe_name).objectives != stored.objectives:
        raise UserError(
            f"the run in {str(resumed)!r} learns {', '.join(sorted(stored.objectives))}, which is not {recipe_name}: "
            f"leave the recipe out to go on with it, or start a new run in another folder"
        )
    return stored


def extract(
    model: Annotated[str, typer.Argument(help="a name that `protoadapt models` lists, a run or a model file")],
    out: Out,
    dataset: Annotated[str, typer.Option(help="a dataset by name; with --images, leave it out")] = "",
    split: Annotated[str, typer.Option(help="base, val or novel (train, val, test)")] = "novel",
    data_dir: DataDir = None,
    images: Annotated[Path | None, typer.Option(help="a folder of class folders of one's own")] = None,
    crop: Annotated[str, typer.Option(help="none, or box: CUB's bounding boxes (default: as trained)")] = "",
    views: Annotated[int, typer.Option(help="average so many views: 1 the picture, 2 its mirror image too, …")] = 1,
    pooling: Annotated[float, typer.Option(help="1: mean over all places; larger: strong ones count more")] = 1.0,
    base_mean: Annotated[bool, typer.Option("--base-mean/--no-base-mean", help="embed the base classes too")] = True,
    half: Annotated[bool, typer.Option("--half", help="store float16, half the size")] = False,
    cache: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="where decoded pictures are kept (default: in --data; of --images, beside --out)"
        ),
    ] = None,
    skip_corrupt: SkipCorrupt = False,
    device: Device = "auto",
    manifest: Annotated[Path | None, typer.Option(help="a manifest of pictures: --out is a folder of shards")] = None,
    shard: Annotated[str, typer.Option(metavar="I/N", help="of the manifest, every N-th shard from I")] = "0/1",
    engine: Annotated[str, typer.Option(help="for the manifest's shards: local or ray")] = "local",
    workers: Annotated[int | None, typer.Option(help="processes for the manifest's shards (a core each)")] = None,
) -> None:
    """Embed pictures once, for all that comes after.

    Those of a dataset's split, for evaluate and compare; or of a manifest, for label --features.
    """
    if manifest:
        if images or dataset or cache:
            raise UserError("--manifest names the pictures and keeps none: leave out --dataset, --images and --cache")
        if pooling != 1:
            raise UserError("the shards of a manifest hold means over all places: leave out --pooling")
        return scale.extract_manifest(model, manifest, out, shard, engine, workers, views, find_device(device))
    if check_output(out, model if Path(model).is_file() else None).suffix != ".safetensors":
        raise UserError(f"features are written as safetensors, not {out.name!r}: end the name in .safetensors")
    backbone, about = networks.load(model, find_device(device))
    embed.check_pooling(backbone, pooling)  # before the pictures are decoded
    if bool(images) == bool(dataset):
        raise UserError("give either --dataset NAME with --data DIR, --images DIR, or --manifest FILE")
    if images:
        dataset, split, data_dir, base_mean = "folder", "all", images, False
        cache = cache or out.parent / ".protoadapt-cache"  # nothing is written among one's own pictures
    options: dict[str, Any] = {
        "size": about["size"],
        "crop": crop or (about["crop"] if dataset == about["dataset"] else "none"),
    }
    options |= {"cache_dir": cache, "on_corrupt": "skip" if skip_corrupt else "fatal"}
    chosen = datasets.load(dataset, split, data_dir, **options)
    base = datasets.load(dataset, "base", data_dir, **options) if base_mean else None
    with progress(f"embedding {split}", (len(chosen) + (len(base) if base else 0)) * views) as done:
        table = embed.extract(backbone, about, chosen, base, views=views, pooling=pooling, half=half, on_progress=done)
    embed.save_index(out.with_suffix(".index.csv"), chosen)
    save_features(out, table)
    rows, dim = table.features.shape
    print(f"{rows:,} rows × {dim} of {len(chosen.class_names)} classes: {out}")
