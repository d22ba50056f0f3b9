"""Commands for pictures by the million: manifest, and what extract does with one."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from protoadapt.core.errors import UserError, count
from protoadapt.core.files import check_output, check_output_folder
from protoadapt.core.untrusted import for_terminal
from protoadapt.vision import shards

LINE_EVERY = 30.0  # seconds between lines where there is no terminal


def manifest(
    sources: Annotated[list[Path], typer.Argument(metavar="DIR|LIST|TAR…", help="a folder, a list, or tar files")],
    out: Annotated[Path, typer.Option(help="the manifest, JSON lines")],
    sha256: Annotated[bool, typer.Option("--sha256", help="note each picture's checksum: every byte is read")] = False,
    shard_size: Annotated[int, typer.Option(help="pictures a shard, the unit of work")] = shards.SHARD_SIZE,
) -> None:
    """List pictures by the million, for extract.

    Cut into shards, for extract --manifest.
    """
    check_output(out, *sources)
    root, found = shards.find(sources)
    absent = 0

    def entries() -> Iterator[shards.Entry]:
        nonlocal absent
        for entry in found:
            absent += entry.size < 0
            yield entry

    with watch("pictures") as tell:
        listed = shards.hashed(root, entries()) if sha256 else entries()
        made = shards.write_manifest(out, root, listed, shard_size, lambda n: tell(n, 0, n))
    if absent:
        print(
            f"{absent:,} of {count(made.pictures, 'picture')} are not there; relative names start at {str(root)!r}",
            file=sys.stderr,
        )
    print(f"{count(made.pictures, 'picture')} in {count(len(made.shards), 'shard')}: {out}")


def extract_manifest(
    model: str | Path, manifest: Path, out: Path, shard: str, engine: str, workers: int | None, views: int, device: str
) -> None:
    """The features of a manifest's pictures, one file a shard; what is there and whole is kept."""
    check_output_folder(out)
    listed, part = shards.load_manifest(manifest), parse_part(shard)
    with watch("pictures") as tell:

        def on_progress(done: shards.Done) -> None:
            tell(done.kept_pictures + done.made_pictures, done.pictures, done.made_pictures)

        done = shards.extract(
            model,
            listed,
            out,
            part=part,
            engine=engine,
            workers=workers,
            views=views,
            device=device,
            on_progress=on_progress,
        )
    for damaged in done.damaged:
        print(f"damaged, made again: {damaged}", file=sys.stderr)
    listing = out / ("broken.csv" if part == (0, 1) else f"broken-{part[0]}-of-{part[1]}.csv")
    broken = shards.list_broken(out, range(part[0], len(listed.shards), part[1]), listing)
    if broken and broken == done.pictures and part == (0, 1):  # no row is no result: what runs next should not start
        print(
            f"error: not one picture could be read, {listing} tells why: mend that, remove their shards from {out}, "
            f"and run this again",
            file=sys.stderr,
        )
        sys.exit(1)
    if broken:
        all_, has = count(done.pictures, "picture"), "has" if broken == 1 else "have"
        print(f"{broken:,} of {all_} cannot be read and {has} no row: {listing}", file=sys.stderr)
    rows = count(done.pictures - broken, "row")
    print(f"{count(done.made, 'shard')} made, {done.kept:,} kept, {rows}: {out}")


def label_shards(
    support: list[Path],
    features: Path,
    out: Path,
    model: str | None,
    method: str,
    settings: dict[str, Any],
    device: str,
) -> None:
    """Name every row of a feature folder: labels.parquet, labels.csv if they are few, and a report on a sample."""
    from protoadapt.labeling.outputs import write_text
    from protoadapt.labeling.streamed import label_features
    from protoadapt.report.html import labels_page

    with watch("rows, all passes") as tell:
        told = label_features(
            support,
            features,
            out,
            model=model,
            method=method,
            settings=settings,
            device=device,
            on_progress=lambda done, total: tell(done, total, done),
        )
    if int(os.environ.get("RANK", "0")):
        return
    write_text(out / "report.html", labels_page(told))
    for one in told["classes"]:
        print(f"{one['found']:11,} {for_terminal(one['name'])} (from {one['support']:,} given)")
    if told["calibrated"]:
        print(f"{sum(one['unknown'] for one in told['classes']):11,} of them may be of no class: column unknown")
    list_notes(told["notes"])
    written = [*sorted(out.glob("labels*.parquet")), *out.glob("labels.csv"), out / "report.html"]
    print(", ".join(map(str, written)))


def list_notes(notes: list[str]) -> None:
    """What people may want to know of the classes they gave."""
    for note in notes:
        print(f"note: {for_terminal(note)}", file=sys.stderr)


def parse_part(text: str) -> tuple[int, int]:
    """'3/64' → (3, 64): the fourth of 64 parts."""
    first, slash, of = text.partition("/")
    if not (slash and all(word.isascii() and word.isdigit() for word in (first, of)) and int(first) < int(of)):
        raise UserError(f"--shard is {text!r}: give i/n with i from 0 to n - 1, such as 0/64")
    return int(first), int(of)


@contextmanager
def watch(what: str) -> Iterator[Callable[[int, int, int], None]]:
    """Tells how far a long job is: a bar on a terminal, a line now and then elsewhere (a log file, SLURM).

    Yields a function of (done, total or 0, how many of those in this run): the last gives the rate and the time left.
    """
    console = Console(stderr=True)
    columns = (BarColumn(), TextColumn("{task.description}"))
    start = last = time.monotonic()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=None)

        def tell(done: int, total: int, now: int) -> None:
            nonlocal last
            seconds = time.monotonic() - start
            text = progress_line(what, done, total, now, seconds)
            bar.update(task, completed=done, total=total or None, description=text)
            if not console.is_terminal and time.monotonic() - last > LINE_EVERY:
                last = time.monotonic()
                print(text, file=sys.stderr, flush=True)

        yield tell


def progress_line(what: str, done: int, total: int, now: int, seconds: float) -> str:
    rate = now / seconds if seconds > 0 else 0.0
    text = f"{done:,} of {total:,} {what}" if total else f"{done:,} {what}"
    if rate:
        text += f", {rate:,.0f}/s" if rate >= 10 else f", {rate:.2g}/s"
        left = timedelta(seconds=round((total - done) / rate)) if total else None
        text += f", {left} left" if left else ""
    return text
