"""Progress callbacks as bars: on a terminal only, never in a log file."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

LINE_EVERY = 30.0  # seconds between lines in a log file

Report = Callable[..., None]
"""report(what, done, total=0, fresh=None): `done` of `total` (0: unknown) `what`; `fresh` of them in this run (default:
all), which gives the rate and the time left."""


@contextmanager
def bars(lines: bool = False) -> Iterator[Report]:
    """One bar per `what` on a terminal. Elsewhere nothing, or with `lines` (for long jobs) a line every 30 seconds."""
    bar = _drawn() if sys.stderr.isatty() else None
    began: dict[str, float] = {}
    tasks: dict[str, TaskID] = {}
    latest = printed = time.monotonic()

    def report(what: str, done: int, total: int = 0, fresh: int | None = None) -> None:
        nonlocal latest, printed
        began.setdefault(what, latest)  # each stage begins where the one before it was last heard of
        latest = time.monotonic()
        text = progress_line(what, done, total, done if fresh is None else fresh, latest - began[what])
        if bar:
            if what not in tasks:
                tasks[what] = bar.add_task("")
            bar.update(tasks[what], completed=done, total=total or None, description=text)
        elif lines and latest - printed > LINE_EVERY:
            printed = latest
            print(text, file=sys.stderr, flush=True)

    with bar or nullcontext():
        yield report


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar for a callback that reports how many of `total` are done."""
    with bars() as report:
        yield lambda done: report(what, done, total)


def _drawn() -> "Progress":
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    return Progress(BarColumn(), TextColumn("{task.description}"), console=Console(stderr=True), transient=True)


def progress_line(what: str, done: int, total: int, fresh: int, seconds: float) -> str:
    """ "1,500 of 10,000 pictures, 50/s, 0:02:50 left" """
    rate = fresh / seconds if seconds > 0 else 0.0
    text = f"{done:,} of {total:,} {what}" if total else f"{done:,} {what}"
    if rate:
        text += f", {rate:,.0f}/s" if rate >= 10 else f", {rate:.2g}/s"
        left = timedelta(seconds=round((total - done) / rate)) if total else None
        text += f", {left} left" if left else ""
    return text
