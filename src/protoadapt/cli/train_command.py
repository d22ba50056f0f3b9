"""`protoadapt train`."""

import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from protoadapt.cli.options import Cache, DataDir, Device, SkipCorrupt, argument, option, refuse_unused
from protoadapt.cli.progress import bars, say_unread, training_progress
from protoadapt.core.errors import UserError
from protoadapt.core.files import check_output_folder

STOPPED = 143
"""Exit code after SIGTERM, as shells report it: a checkpoint is saved, and the run can be resumed."""

CONFIG_HELP = "change a setting, such as epochs=40; repeatable"


def train_command(
    out: Annotated[Path, option("directory for the run: checkpoints, log, network", "DIR")],
    recipe_name: Annotated[str, argument("name from `protoadapt recipes`; not needed with --resume", "RECIPE")] = "",
    dataset: Annotated[str, option("train on this dataset, with its default settings", "NAME")] = "",
    data_dir: DataDir = None,
    settings: Annotated[list[str] | None, option(CONFIG_HELP, "NAME=VALUE", flag="--set")] = None,
    cache: Cache = None,
    skip_corrupt: SkipCorrupt = False,
    resume: Annotated[bool, option("continue from the last checkpoint in --out", flag="--resume")] = False,
    device: Device = "auto",
    devices: Annotated[str | None, option("number of GPUs or CPU processes here, or auto (default: 1)")] = None,
    nodes: Annotated[int, option("number of machines")] = 1,
) -> None:
    """Train a network on the base classes of a dataset.

    Keeps the epoch with the best accuracy on the validation classes; the novel classes are never read. Ctrl-C or
    SIGTERM saves a checkpoint first (exit codes 130 and 143); --resume continues from it.
    """
    from protoadapt.training import load_splits, stored_config, train
    from protoadapt.training.recipes import recipe

    check_output_folder(out)  # before pictures are decoded
    given = [*([f"dataset={dataset}"] if dataset else []), *(settings or [])]
    if recipe_name:
        config = recipe(recipe_name, given)
    elif resume and not given:
        config = stored_config(out)
    else:
        raise UserError("no recipe is named: give one that `protoadapt recipes` lists, such as hct_r")
    kind, _, number = device.partition(":")
    if kind not in ("auto", "cpu", "cuda", "mps"):
        raise UserError(f"there is no device {device!r}: give cpu, cuda, cuda:N or auto")
    if number:
        refuse_unused({"--devices": devices}, f"with --device {device}")
        devices = f"{number},"  # a list of one
    reading: dict[str, Any] = {"cache_dir": cache, "on_corrupt": "skip" if skip_corrupt else "fatal"}
    with bars() as report:
        splits = load_splits(config, data_dir, **reading, on_progress=partial(report, "pictures decoded"))
    for images in splits:
        say_unread(images)
    with training_progress() as show:
        place: dict[str, Any] = {"accelerator": kind, "devices": devices or "1", "num_nodes": nodes}
        result = train(config, *splits, out, resume=resume, on_event=show, **place)
    if not result["finished"]:
        print(f"stopped before the end: continue with `protoadapt train --resume --out {out}`")
        sys.exit(STOPPED)
    if result["best"]:
        print(f"best: epoch {result['best']['epoch']}, validation score {result['best']['score']:.2f} ({out})")
