"""`protoadapt suggest`."""

import shlex
from pathlib import Path
from typing import Annotated, Any

from protoadapt.cli.options import Device, FeatureCache, ModelName, find_device, option
from protoadapt.cli.progress import bars, say_notes, say_skipped, shortened
from protoadapt.core.errors import for_terminal
from protoadapt.labeling import DEFAULT_MODEL


def suggest_command(
    images: Annotated[Path, option("pictures, in this directory and those below it", "DIR")],
    out: Annotated[Path, option("directory for next.csv, next.html and next.json", "DIR")],
    support: Annotated[
        list[Path] | None, option("labels so far, as in `label`, if there are any; repeatable", "DIR|CSV")
    ] = None,
    n: Annotated[int, option("number of pictures to suggest", flag="--n")] = 20,
    model: ModelName = DEFAULT_MODEL,
    cache: FeatureCache = None,
    device: Device = "auto",
) -> None:
    """Suggest which pictures to label next.

    Without labels, the most typical picture of each cluster; later those that would teach the classifier most. Fill in
    the column label of next.csv and pass it to `label` as --support.
    """
    from protoadapt.labeling.suggest_folder import suggest_folder
    from protoadapt.report.picture_pages import next_page

    sources = support or []
    with bars() as report:
        options: dict[str, Any] = {"n": n, "model": model, "cache": cache, "device": find_device(device)}
        result = suggest_folder(images, out, sources, **options, page=next_page, on_progress=report)
    table, page, document = (out / f"next.{kind}" for kind in ("csv", "html", "json"))
    lines = [f"{for_terminal(one['file'])}: {for_terminal(one['reason'])}" for one in result["pictures"]]
    print(*shortened(lines, table, most=20), sep="\n")
    say_notes(result["notes"], document)
    say_skipped(result["skipped"], document)
    print(f"look at {page}, fill in the column label of {table}, then name all pictures:")
    given = [word for source in dict.fromkeys([*sources, table]) for word in ("--support", source)]
    # Labels stay in the folder where they are; the first time, features that were computed here are used again.
    place = next((source.parent for source in reversed(sources) if source.name == "labels.csv"), out)
    command = ["protoadapt", "label", *given, "--images", images, "--out", place]
    print(for_terminal(f"  {shlex.join(map(str, command))}"))
