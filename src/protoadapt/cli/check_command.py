"""`protoadapt check`."""

from pathlib import Path
from typing import Annotated, Any

from protoadapt.cli.options import Device, FeatureCache, ModelName, argument, find_device, option
from protoadapt.cli.progress import bars, say_notes, say_skipped, shortened
from protoadapt.core.errors import count, for_terminal
from protoadapt.labeling import DEFAULT_MODEL


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
    from protoadapt.labeling.check import check_folder
    from protoadapt.report.picture_pages import check_page

    with bars() as report:
        given: dict[str, Any] = {"images": images, "model": model, "cache": cache, "device": find_device(device)}
        result = check_folder(labelled, out, **given, page=check_page, on_progress=report)
    groups = [[f"{file['file']} ({file['label']})" for file in one["files"]] for one in result["duplicates"]]
    found = {
        ("label that is probably wrong", "labels that are probably wrong"): [
            f"{one['file']}: {one['label']}, more likely {one['likely']}" for one in result["suspects"]
        ],
        ("group of near-duplicates", "groups of near-duplicates"): [", ".join(group[:3]) for group in groups],
        ("outlier", "outliers"): [f"{one['file']}: {one['label']}" for one in result["outliers"]],
        ("pair of confused classes", "pairs of confused classes"): [
            f"{' and '.join(one['classes'])}: {one['share']:.0%} of their pictures" for one in result["confused"]
        ],
    }
    document = out / "check.json"
    print(f"{count(result['checked'], 'picture')} of {count(len(result['classes']), 'class', 'classes')}")
    for (one, many), lines in found.items():
        print(count(len(lines), one, many))
        for text in shortened(lines, document):
            print(f"  {for_terminal(text)}")
    say_notes(result["notes"], document)
    say_skipped(result["skipped"], document)
    print(f"{out / 'check.csv'}, {out / 'check.html'}")
