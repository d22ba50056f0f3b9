"""`protoadapt predict`."""

from pathlib import Path
from typing import Annotated, Any

from protoadapt.cli.options import Device, Sort, argument, find_device, option, refuse_unused
from protoadapt.cli.progress import bars, say_skipped
from protoadapt.core.errors import for_terminal


def predict_command(
    classifier: Annotated[Path, argument("output directory of `label`, or its classifier.safetensors", "CLASSIFIER")],
    images: Annotated[list[Path], argument("pictures, or directories of them", "IMAGE|DIR")],
    out: Annotated[Path | None, option("directory for labels.csv, labels.json and report.html as well", "DIR")] = None,
    sort: Sort = None,
    model: Annotated[str | None, option("path of the network, if it has moved since `label` ran")] = None,
    device: Device = "auto",
) -> None:
    """Name new pictures with a classifier from `label`.

    Each picture is named by itself: the others have no influence (inductive).
    """
    if out is None:
        refuse_unused({"--sort": sort}, "without --out")
    from protoadapt import labeling
    from protoadapt.report.label_page import labels_page

    given: dict[str, Any] = {"model": model, "out": out, "sort": sort, "device": find_device(device)}
    with bars() as report:
        result = labeling.predict(classifier, images, **given, page=labels_page, on_progress=report)
    for one in result["pictures"]:
        doubt = ", perhaps none of the classes" if one["unknown"] else ""
        print(f"{for_terminal(one['file'])}: {for_terminal(one['label'])} ({one['confidence']:.0%}{doubt})")
    say_skipped(result["skipped"], out and out / "report.html")
    if out is not None:
        print(f"{out / 'labels.csv'}, {out / 'report.html'}")
