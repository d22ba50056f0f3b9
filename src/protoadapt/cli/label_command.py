"""`protoadapt label`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from protoadapt.cli.options import MODEL_HELP, Device, FeatureCache, Set, find_device
from protoadapt.cli.progress import bars, say, shortened
from protoadapt.core.errors import UserError, count
from protoadapt.core.untrusted import for_terminal

MODEL = "lite0"
LISTED = 5  # of the skipped files, and of notes
Sort = Annotated[str | None, typer.Option(metavar="copy|link", help="copy or link the pictures into OUT/sorted/CLASS/")]
SortUnknown = Annotated[
    str | None,
    typer.Option(
        metavar="together|apart",
        help="with --sort: unknown pictures go to the folder of their likeliest class (default), or to sorted/unknown/",
    ),
]


def label(
    out: Annotated[Path, typer.Option(metavar="DIR", help="directory for labels.csv, report.html, classifier, …")],
    support: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DIR|CSV",
            help="labelled examples: one folder per class, or a csv with the columns file and label; repeatable",
        ),
    ] = None,
    images: Annotated[
        Path | None, typer.Option(metavar="DIR", help="pictures to name, in this directory and those below it")
    ] = None,
    features: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="directory of feature shards from `extract --manifest`; replaces --images"),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help=f"{MODEL_HELP} (default: {MODEL}; with --features, the one that made them)")
    ] = None,
    method: Annotated[str, typer.Option(help="bapa, cipa, protonet, semi_protonet, soft_kmeans or pt_map")] = "bapa",
    settings: Set = None,
    sort: Sort = None,
    sort_unknown: SortUnknown = None,
    unknown: Annotated[
        str | None,
        typer.Option(
            metavar="off|RATE",
            help="share of known pictures that may be called unknown, up to 0.5 (default: 0.1); off: no picture is",
        ),
    ] = None,
    cache: FeatureCache = None,
    device: Device = "auto",
) -> None:
    """Name pictures from a few labelled examples per class.

    Unlabelled pictures also shape the classifier (transductive). Writes labels.csv, a report to check them in, and a
    classifier for `predict`.
    """
    of_images = {"--images": images, "--sort": sort, "--sort-unknown": sort_unknown, "--cache": cache}
    if features and (unused := [option for option, value in of_images.items() if value]):
        rule = "--features replaces --images and takes neither --sort nor --cache"
        raise UserError(f"--features is given with {' and '.join(unused)}: {rule}")
    if not (features or images):
        raise UserError("there are no pictures to name: give --images DIR, or --features DIR from extract --manifest")
    if not support:
        where = f"--images {images} --out {out}" if images else "--images DIR --out DIR"
        raise UserError(
            f"there are no examples: give --support with one folder per class or a csv, or let `protoadapt suggest "
            f"{where}` choose pictures to label first"
        )
    from protoadapt import labeling
    from protoadapt.report.label_page import labels_page, labels_summary

    options: dict[str, Any] = {"method": method, "unknown": unknown, "features": features, "model": model}
    if settings:
        from protoadapt.core.methods import parse_assignments

        options["settings"] = parse_assignments(settings)
    with bars(lines=features is not None) as report:
        options |= {"sort": sort, "sort_unknown": sort_unknown, "cache": cache, "page": labels_page}
        result = labeling.label(support, images, out, device=find_device(device), on_progress=report, **options)
    _print_classes(result)
    print(labels_summary(result))
    print_notes(result["notes"], out / "labels.json")
    if images:
        print_skipped(result["skipped"], out / "report.html")
    if result.get("left_alone"):
        print(f"not written by protoadapt and left as is: {count(result['left_alone'], 'file')} in {out / 'sorted'}")
    parquet = [] if images else [out / "labels.parquet"]
    print(", ".join(map(str, [*parquet, *out.glob("labels.csv"), out / "report.html"])))


def _print_classes(result: dict[str, Any]) -> None:
    """How many pictures each class got, how many of these may be of no class, and from how many examples."""
    for one in result["classes"] if any(one["found"] for one in result["classes"]) else ():
        unknown = f"; {one['unknown']:,} unknown" if one["unknown"] else ""
        print(f"{one['found']:11,} {for_terminal(one['name'])} (from {count(one['support'], 'example')}{unknown})")


def print_skipped(skipped: list[dict[str, Any]], where: str | Path | None = None) -> None:
    """The first few files that could not be used, and why; `where` lists them all (None: this is the only list)."""
    if skipped:
        say(f"{count(len(skipped), 'file')} {'was' if len(skipped) == 1 else 'were'} skipped:")
    lines = [f"{for_terminal(one['file'])}: {for_terminal(one['reason'])}" for one in skipped]
    for line in lines if where is None else shortened(lines, LISTED, str(where)):
        say(f"  {line}")


def print_notes(notes: list[str], where: str | Path) -> None:
    """What a person should look at; `where` lists all notes."""
    for line in shortened([for_terminal(note) for note in notes], LISTED, str(where)):
        say(f"note: {line}")
