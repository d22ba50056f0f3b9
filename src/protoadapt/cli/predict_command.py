"""`protoadapt predict`."""

import json
from pathlib import Path
from typing import Annotated, Any

from protoadapt.cli.options import Device, Sort, SortUnknown, argument, find_device, option
from protoadapt.cli.progress import bars, say_skipped
from protoadapt.core.errors import UserError, no_such
from protoadapt.core.untrusted import for_terminal

FORMATS = ("text", "csv", "json")


def predict_command(
    classifier: Annotated[Path, argument("classifier.safetensors from `protoadapt label`", "CLASSIFIER")],
    images: Annotated[list[Path], argument("pictures, or directories of them", "IMAGE|DIR")],
    form: Annotated[str, option("text; csv: as labels.csv; json: everything there is", flag="--format")] = "text",
    out: Annotated[Path | None, option("directory for labels.csv, labels.json and report.html as well", "DIR")] = None,
    sort: Sort = None,
    sort_unknown: SortUnknown = None,
    model: Annotated[str | None, option("path of the network, if it has moved since `label` ran")] = None,
    device: Device = "auto",
) -> None:
    """Name new pictures with a classifier from `label`.

    Each picture is named by itself: the others have no influence (inductive).
    """
    if form not in FORMATS:
        raise no_such("format", form, FORMATS)
    from protoadapt import labeling
    from protoadapt.labeling import outputs
    from protoadapt.labeling.sorting import check_way

    check_way(sort, sort_unknown)
    if sort and out is None:
        raise UserError("--sort needs a folder for the sorted pictures: give --out DIR")
    given: dict[str, Any] = {"model": model, "out": out, "sort": sort, "sort_unknown": sort_unknown}
    if out is not None:
        from protoadapt.report.label_page import labels_page

        given["page"] = labels_page
    with bars() as report:
        result = labeling.predict(classifier, images, **given, device=find_device(device), on_progress=report)
    if form == "json":
        print(json.dumps(result))
    elif form == "csv":
        print(outputs.labels_csv_text(result), end="")
    else:
        for one in result["pictures"]:
            doubt = ", perhaps none of the classes" if one["unknown"] else ""
            print(f"{for_terminal(one['file'])}: {for_terminal(one['label'])} ({one['confidence']:.0%}{doubt})")
    say_skipped(result["skipped"], "--format json" if out is None else out / "report.html")
    if out is not None and form == "text":
        print(f"{out / 'labels.csv'}, {out / 'report.html'}")
