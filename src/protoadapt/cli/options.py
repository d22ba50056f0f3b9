"""What commands share: the device, and a bar on a terminal."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from protoadapt.core.errors import UserError

Device = Annotated[str, typer.Option(help="cpu, cuda, cuda:1, … (auto: a GPU if there is one)")]
Cache = Annotated[
    Path | None, typer.Option(metavar="DIR", help="where decoded pictures are kept (default: in the data folder)")
]
Set = Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="a setting; may be repeated")]


def find_device(name: str) -> str:
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        if torch.device(name).type not in ("cpu", "cuda", "mps", "xpu") or name.startswith("cpu:"):
            raise RuntimeError("it is no place to compute on")
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0][:100]
        raise UserError(f"device {name!r} cannot be used here: take --device cpu ({reason})") from error
    return name


@contextmanager
def progress(title: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar on a terminal, nothing elsewhere. Yields a function that is told how much is done."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(title, total=total)
        yield lambda done: bar.update(task, completed=done)
