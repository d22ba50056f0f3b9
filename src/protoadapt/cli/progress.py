"""What a person sees while a command runs: progress bars, on a terminal only, and lines beside the output."""

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from protoadapt.core.errors import count, for_terminal

if TYPE_CHECKING:
    from protoadapt.training import Event
    from protoadapt.vision.pictures.split import Images

_LISTED = 5  # lines of a list that are printed
LINE_EVERY = 30.0  # seconds between lines in a log file

ShowProgress = Callable[..., None]
"""report(what, done, total=0): `done` of `total` (0: unknown) `what`."""


def say(words: str) -> None:
    """Print for people: beside the output, at once."""
    print(words, file=sys.stderr, flush=True)


def shortened(lines: Sequence[str], where: object, most: int = _LISTED) -> list[str]:
    """The first lines of a list, and how many more there are; `where` lists all of them (None: this is the list)."""
    more = len(lines) - most
    return [*lines[:most], f"… and {more:,} more, which {where} lists"] if more > 0 and where else [*lines]


def say_notes(notes: Sequence[str], where: object) -> None:
    """What a person should look at; `where` lists all notes."""
    for line in shortened(notes, where):
        say(f"note: {for_terminal(line)}")


def say_skipped(skipped: Sequence[Mapping[str, Any]], where: object = None) -> None:
    """The first few files that could not be used, and why; `where` lists them all (None: this is the only list)."""
    if skipped:
        say(f"{count(len(skipped), 'file')} {'was' if len(skipped) == 1 else 'were'} skipped:")
    for line in shortened([f"{one['file']}: {one['reason']}" for one in skipped], where):
        say(f"  {for_terminal(line)}")


def say_unread(images: "Images") -> None:
    """How many pictures of a dataset were left out because they cannot be read, and the classes that have none left."""
    if not (skipped := images.skipped):
        return
    are = "is" if len(skipped) == 1 else "are"
    whole = f"{count(len(images) + len(skipped), 'picture')} of the split {images.split}"
    say(f"{len(skipped):,} of {whole} cannot be read and {are} left out, such as {for_terminal(skipped[0])}")
    folders = {os.path.basename(os.path.dirname(name)) for name in skipped}
    if gone := sorted(folders - set(images.class_names)):
        say(f"no picture is left of {', '.join(map(for_terminal, gone))}")


@contextmanager
def bars(lines: bool = False) -> Iterator[ShowProgress]:
    """One bar per `what` on a terminal. Elsewhere nothing, or with `lines` (for long jobs) a line every 30 seconds."""
    bar = None
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        columns = BarColumn(), TextColumn("{task.description}")
        bar = Progress(*columns, console=Console(stderr=True), transient=True)
    began: dict[str, tuple[int, float]] = {}
    tasks: dict[str, Any] = {}
    printed = time.monotonic()

    def report(what: str, done: int, total: int = 0) -> None:
        nonlocal printed
        now = time.monotonic()
        before, start = began.setdefault(what, (done, now))  # what an earlier run made does not count for the rate
        text = progress_line(what, done, total, (done - before) / max(now - start, 1e-9))
        if bar:
            if what not in tasks:
                tasks[what] = bar.add_task("")
            bar.update(tasks[what], completed=done, total=total or None, description=text)
        elif lines and now - printed > LINE_EVERY:
            printed = now
            say(text)

    with bar or nullcontext():
        yield report


def progress_line(what: str, done: int, total: int, rate: float) -> str:
    """ "1,500 of 10,000 pictures, 50/s, 0:02:50 left" """
    text = f"{done:,} of {total:,} {what}" if total else f"{done:,} {what}"
    if rate > 0:
        text += f", {rate:,.0f}/s" if rate >= 10 else f", {rate:.2g}/s"
        text += f", {timedelta(seconds=round((total - done) / rate))} left" if total else ""
    return text


@contextmanager
def training_progress() -> "Iterator[Callable[[Event], None]]":
    """The callback `on_event` of `train`."""
    with bars() as report:

        def show(event: "Event") -> None:
            if event.kind == "note":
                say(event.text)
            elif event.kind == "epoch ends":
                say(epoch_line(event.record, event.epochs, event.seconds_left))
            else:
                report("images", event.images, event.total_images)

        yield show


def epoch_line(record: Mapping[str, Any], epochs: int, seconds_left: float) -> str:
    """ "epoch 3/40  ce 0.812  base 71.2 %  9,100 images/s  0:03:12 left  |  validation  cipa 72.10 / 81.35 …" """
    from protoadapt.report.training_curves import NO_LOSSES

    losses = [f"{n} {v:.3f}" for n, v in record.items() if n not in NO_LOSSES and not n.startswith("val_")]
    text = f"epoch {record['epoch']}/{epochs}  {'  '.join(losses)}  base {record['accuracy']:.1f} %"
    text += f"  {record['images_per_second']:,.0f} images/s  {timedelta(seconds=round(seconds_left))} left"
    if "val_score" in record:
        text += "  |  validation"
        for method in ("cipa", "protonet"):
            text += f"  {method} {record[f'val_{method}_1']:.2f} / {record[f'val_{method}_5']:.2f}"
    return text
