"""Commands on one's own pictures: label, predict. What they need takes seconds to load, so it is loaded when called."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from protoadapt.cli import scale
from protoadapt.cli.options import Device, Set, find_device
from protoadapt.core.errors import UserError, count
from protoadapt.core.methods import parse_assignments
from protoadapt.core.untrusted import for_terminal

MODEL = "lite0"
SHOWN = 5  # of what was skipped


def label(
    support: Annotated[
        list[Path],
        typer.Option(metavar="DIR|CSV", help="a folder a class, or a csv with file and label; may be repeated"),
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="where labels.csv, report.html, … go")],
    images: Annotated[Path | None, typer.Option(metavar="DIR", help="the pictures to be named, at any depth")] = None,
    features: Annotated[
        Path | None, typer.Option(metavar="DIR", help="instead: the shards that extract --manifest wrote, of millions")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="a name that `protoadapt models` lists, timm:NAME, or a file (default: lite0; the features' own)"
        ),
    ] = None,
    method: Annotated[str, typer.Option(help="bapa, cipa, protonet, semi_protonet, soft_kmeans or pt_map")] = "bapa",
    settings: Set = None,
    sort: Annotated[str | None, typer.Option(metavar="copy|link", help="into OUT/sorted/CLASS/")] = None,
    cache: Annotated[Path | None, typer.Option(help="where features are kept (default: OUT/.features)")] = None,
    device: Device = "auto",
) -> None:
    """Name pictures from a few labelled ones of each class.

    All pictures help.
    """
    from protoadapt import labeling
    from protoadapt.labeling.outputs import write_text
    from protoadapt.report.html import labels_page

    chosen = parse_assignments(settings or [])
    if features:
        if images or sort or cache:
            raise UserError("--features goes with --support and --out, and without --images, --sort and --cache")
        return scale.label_shards(support, features, out, model, method, chosen, find_device(device))
    if images is None:
        raise UserError("there is nothing to name: give --images DIR, or --features DIR with what extract wrote")
    with pictures_per_second() as on_progress:
        told = labeling.label(
            support,
            images,
            out,
            model=model or MODEL,
            method=method,
            settings=chosen,
            sort=sort,
            cache=cache,
            device=find_device(device),
            on_progress=on_progress,
        )
    write_text(out / "report.html", labels_page(told))
    if all(picture["support"] for picture in told["pictures"]):
        print("nothing was left to be named: every picture is one of your examples")
    else:
        for one in told["classes"]:
            print(f"{one['found']:7,} {for_terminal(one['name'])} (from {one['support']:,} given)")
        if told["calibrated"]:
            unknown = sum(picture["unknown"] for picture in told["pictures"])
            print(f"{unknown:7,} of them may be of no class: column unknown")
    scale.list_notes(told["notes"])
    _list_skipped(told["skipped"])
    if told.get("left_alone"):
        print(f"not protoadapt's and left alone: {count(told['left_alone'], 'file')} in {out / 'sorted'}")
    print(f"{out / 'labels.csv'}, {out / 'report.html'}")


def predict(
    classifier: Annotated[Path, typer.Argument(help="classifier.safetensors, as `label` writes it")],
    given: Annotated[list[Path], typer.Argument(metavar="IMAGE|DIR...", help="pictures, and folders of them")],
    as_json: Annotated[bool, typer.Option("--json", help="everything, as JSON")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="as labels.csv")] = False,
    model: Annotated[str | None, typer.Option(help="the model, where it is not found under its saved name")] = None,
    device: Device = "auto",
) -> None:
    """Name new pictures with a classifier of `label`.

    Each by itself.
    """
    from protoadapt import labeling
    from protoadapt.labeling import outputs

    if as_json and as_csv:
        raise UserError("--json and --csv ask for two forms at once: give one of them")
    with pictures_per_second() as on_progress:
        told = labeling.predict(classifier, given, model=model, device=find_device(device), on_progress=on_progress)
    if as_json:
        print(json.dumps(told))
    elif as_csv:
        print(outputs.as_csv(told), end="")
    else:
        for one in told["pictures"]:
            unknown = ", perhaps of no class" if one["unknown"] else ""
            name, label = for_terminal(one["file"]), for_terminal(one["label"])
            print(f"{name}: {label} ({one['confidence']:.0%}{unknown})")
    _list_skipped(told["skipped"])


class Rate(ProgressColumn):
    """Pictures a second."""

    def render(self, task: Task) -> Text:
        return Text("" if task.speed is None else f"{task.speed:,.0f} pictures/s")


@contextmanager
def pictures_per_second() -> Iterator[Callable[[str, int, int], None]]:
    """Bars on a terminal, nothing elsewhere. Yields a function: what is done, how much of it, and of how much."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Rate(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        tasks: dict[str, TaskID] = {}

        def tell(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what, completed=done)
            bar.update(tasks[what], completed=done, total=total)

        yield tell


def _list_skipped(skipped: list[dict[str, Any]]) -> None:
    if skipped:
        print(f"{count(len(skipped), 'file')} {'was' if len(skipped) == 1 else 'were'} left out:", file=sys.stderr)
    for one in skipped[:SHOWN]:
        print(f"  {for_terminal(one['file'])}: {for_terminal(one['reason'])}", file=sys.stderr)
    if len(skipped) > SHOWN:
        print("  …", file=sys.stderr)
