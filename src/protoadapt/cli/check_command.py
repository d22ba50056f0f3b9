"""`protoadapt check`."""

import re
from pathlib import Path
from typing import Annotated, Any

from protoadapt.cli.options import DEFAULT_MODEL, Device, FeatureCache, ModelName, argument, find_device, option
from protoadapt.cli.progress import bars, say_notes, say_skipped, shortened
from protoadapt.core.errors import count
from protoadapt.core.files import check_ours, check_output_folder, write_json, write_text
from protoadapt.core.untrusted import for_terminal

OURS = {
    "check.csv": re.compile(rb"file,label,fault,detail"),
    "check.html": re.compile(rb'content="protoadapt, check"'),
    "check.json": re.compile(rb'"schema": *"protoadapt-check/'),
}
"""What shows that a file was written by this command."""


def check_command(
    labelled: Annotated[
        list[Path], argument("labelled pictures: one folder per class, or a csv of file and label", "DIR|CSV")
    ],
    out: Annotated[Path, option("directory for check.csv, check.html and check.json", "DIR")],
    images: Annotated[
        Path | None, option("directory that a csv's files are in (default: that of the csv)", "DIR")
    ] = None,
    model: ModelName = DEFAULT_MODEL,
    cache: FeatureCache = None,
    device: Device = "auto",
) -> None:
    """Look for faults in labelled pictures.

    Finds labels that are probably wrong, near-duplicates, outliers, and classes that are confused with each other.
    """
    check_output_folder(out)
    table, page, document = (check_ours(out / name, mark) for name, mark in OURS.items())
    from protoadapt.labeling.check_folder import check_folder, check_table
    from protoadapt.labeling.thumbnails import with_images
    from protoadapt.report.picture_pages import check_page

    with bars() as report:
        where = find_device(device)
        result = check_folder(labelled, out, images=images, model=model, cache=cache, device=where, on_progress=report)
    write_text(table, check_table(result))
    write_json(document, result)
    write_text(page, check_page(with_images(result, out)))
    print(f"{count(result['checked'], 'picture')} of {count(len(result['classes']), 'class', 'classes')}")
    for (one, many), found in _faults(result).items():
        print(count(len(found), one, many))
        for text in shortened(found, document):
            print(f"  {for_terminal(text)}")
    say_notes(result["notes"], document)
    say_skipped(result["skipped"], document)
    print(f"{table}, {page}")


def _faults(result: dict[str, Any]) -> dict[tuple[str, str], list[str]]:
    """What was found of each kind, whose name is given for one and for several."""
    suspects, duplicates, outliers, confused = (
        result[kind] for kind in ("suspects", "duplicates", "outliers", "confused")
    )
    groups = [[f"{file['file']} ({file['label']})" for file in one["files"]] for one in duplicates]
    return {
        ("label that is probably wrong", "labels that are probably wrong"): [
            f"{one['file']}: {one['label']}, more likely {one['likely']}" for one in suspects
        ],
        ("group of near-duplicates", "groups of near-duplicates"): [", ".join(group[:3]) for group in groups],
        ("outlier", "outliers"): [f"{one['file']}: {one['label']}" for one in outliers],
        ("pair of confused classes", "pairs of confused classes"): [
            f"{' and '.join(one['classes'])}: {one['share']:.0%} of their pictures" for one in confused
        ],
    }
