"""`python -m paper TABLE` makes a table of the paper; `python -m paper` lists them. Imports heavy libraries late."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from protoadapt.cli import main
from protoadapt.cli.options import Cache, Device, argument, find_device, option
from protoadapt.cli.progress import bars, say, training_progress
from protoadapt.core.errors import UserError, no_such
from protoadapt.core.files import check_output_folder


def reproduce(
    table: Annotated[str, argument("name of the table; without it, all names are listed", "TABLE")] = "",
    data: Annotated[
        list[str] | None, option("folder of datasets, or NAME=DIR for one dataset; may be repeated", "DIR")
    ] = None,
    out: Annotated[Path, option("folder of training runs, networks and features")] = Path("runs"),
    results: Annotated[Path, option("folder of result files, one subfolder per network")] = Path("results"),
    cache: Cache = None,
    weights: Annotated[
        Path | None, option("folder of trained networks: NAME.safetensors, NAME-train.json", "DIR")
    ] = None,
    only_evaluate: Annotated[
        bool, option("train nothing; use existing networks and results", flag="--only-evaluate")
    ] = False,
    only: Annotated[
        list[str] | None, option("only these result files, such as 'cub-box/*'; may be repeated", "PATTERN")
    ] = None,
    epochs: Annotated[int | None, option("epochs of every training run (default: the recipe's)", min=1)] = None,
    episodes: Annotated[int | None, option("episodes of every evaluation (default: the table's)", min=1)] = None,
    per_class: Annotated[int | None, option("use only so many pictures per class, for a trial run", min=1)] = None,
    device: Device = "auto",
) -> None:
    """Make a table of the paper from scratch: train, extract, evaluate.

    The same command resumes after an interruption; finished parts are not repeated.
    """
    from paper.engine import reproduce as make
    from paper.figures import draw_figures
    from paper.networks import Stopped, Work
    from paper.results_page import section
    from paper.stored_results import Results
    from paper.tables import TABLES

    if not table:
        for name, plan in TABLES.items():
            print(f"{name:15} {plan.title}")
        return
    if table not in TABLES:
        raise no_such("table", table, TABLES)
    if weights and not weights.is_dir():
        raise UserError(f"there is no folder {str(weights)!r}: give a folder that holds NAME.safetensors files")
    for folder in (out, results):
        check_output_folder(folder)
    work = Work(
        data=_folders(data or []),
        out=out,
        results=results,
        cache=cache,
        weights=weights,
        only_evaluate=only_evaluate,
        only=tuple(only or ()),
        epochs=epochs,
        episodes=episodes,
        per_class=per_class,
        device=find_device(device),
        say=say,
        progress=_progress,
        watch=training_progress,
    )
    try:
        missing = make(TABLES[table], work)
    except (Stopped, KeyboardInterrupt) as stopped:
        say("stopped: run the same command to resume")
        sys.exit(130 if isinstance(stopped, KeyboardInterrupt) else 1)
    own = Results(results, {file: {} for file in missing})  # a refused file holds results of another run
    print(section(table, own, work.selects if only else None))
    for file in draw_figures(table, own, out / "figures"):
        say(f"wrote {file}")
    if missing:
        sys.exit(1)


def _folders(options: list[str]) -> dict[str, list[Path]]:
    """["data", "cub=birds"] → {"": [data], "cub": [birds]}"""
    from paper.cub_plans import COPIES
    from protoadapt.training.datasets import find_dataset

    folders: dict[str, list[Path]] = {"": []}
    for text in options:
        name, equals, path = text.partition("=")
        dataset = ""
        if equals and not Path(text).is_dir():
            dataset = name if name in COPIES else find_dataset(name)[0]
        place = Path(path if dataset else text)
        if not place.is_dir():
            raise UserError(f"there is no folder {str(place)!r}: give --data DIR, or --data cub=DIR for one dataset")
        folders.setdefault(dataset, []).append(place)
    return folders


@contextmanager
def _progress(title: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar on a terminal, a line now and then elsewhere."""
    with bars(lines=True) as report:
        yield lambda done: report(title, done, total)


app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
app.command()(reproduce)

if __name__ == "__main__":
    main(app)
