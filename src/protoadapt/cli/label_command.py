"""`protoadapt label`."""

from pathlib import Path
from typing import Annotated

from protoadapt.cli.options import (
    DEFAULT_MODEL,
    MODEL_HELP,
    Device,
    FeatureCache,
    Settings,
    Sort,
    SortUnknown,
    find_device,
    option,
    refuse_unused,
)
from protoadapt.cli.progress import bars, say_notes, say_skipped
from protoadapt.core.errors import UserError, count
from protoadapt.core.untrusted import for_terminal


def label_command(
    out: Annotated[Path, option("directory for labels.csv, report.html, classifier, …", "DIR")],
    support: Annotated[
        list[Path] | None,
        option(
            "labelled examples: one folder per class, or a csv with the columns file and label; repeatable", "DIR|CSV"
        ),
    ] = None,
    images: Annotated[Path | None, option("pictures to name, in this directory and those below it", "DIR")] = None,
    features: Annotated[
        Path | None, option("directory of feature shards from `extract --manifest`; replaces --images", "DIR")
    ] = None,
    model: Annotated[
        str | None, option(f"{MODEL_HELP} (default: {DEFAULT_MODEL}; with --features, the one that made them)")
    ] = None,
    method: Annotated[str, option("bapa, cipa, protonet, semi_protonet, soft_kmeans or pt_map")] = "bapa",
    settings: Settings = None,
    sort: Sort = None,
    sort_unknown: SortUnknown = None,
    unknown: Annotated[
        str | None,
        option(
            "share of known pictures that may be called unknown, up to 0.5 (default: 0.1); off: no picture is",
            "off|RATE",
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
    if features:
        refuse_unused(of_images, "with --features")
    elif not images:
        raise UserError("there are no pictures to name: give --images DIR, or --features DIR from extract --manifest")
    if not support:
        where = f"--images {images} --out {out}" if images else "--images DIR --out DIR"
        raise UserError(
            f"there are no examples: give --support with one folder per class or a csv, or let `protoadapt suggest "
            f"{where}` choose pictures to label first"
        )
    from protoadapt import labeling
    from protoadapt.core.methods import parse_assignments
    from protoadapt.report.label_page import labels_page, labels_summary

    with bars(lines=features is not None) as report:
        result = labeling.label(
            support,
            images,
            out,
            features=features,
            model=model,
            method=method,
            settings=parse_assignments(settings or []),
            sort=sort,
            sort_unknown=sort_unknown,
            unknown=unknown,
            cache=cache,
            device=find_device(device),
            on_progress=report,
            page=labels_page,
        )
    for one in result["classes"] if any(one["found"] for one in result["classes"]) else ():
        maybe = f"; {one['unknown']:,} unknown" if one["unknown"] else ""
        print(f"{one['found']:11,} {for_terminal(one['name'])} (from {count(one['support'], 'example')}{maybe})")
    print(labels_summary(result))
    say_notes(result["notes"], out / "labels.json")
    if images:
        say_skipped(result["skipped"], out / "report.html")
    if result.get("left_alone"):
        print(f"not written by protoadapt and left as is: {count(result['left_alone'], 'file')} in {out / 'sorted'}")
    parquet = [] if images else [out / "labels.parquet"]
    print(", ".join(map(str, [*parquet, *out.glob("labels.csv"), out / "report.html"])))
