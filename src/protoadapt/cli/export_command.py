"""`protoadapt export`."""

from pathlib import Path
from typing import Annotated

from protoadapt.cli.options import MODEL_HELP, argument, option, refuse_unused
from protoadapt.cli.progress import say_skipped
from protoadapt.core.errors import count

FORMAT_HELP = (
    "onnx; of labels: imagefolder (a folder per class; Hugging Face), fiftyone, label-studio or xmp (keywords) "
    "(default: onnx of a model, imagefolder of labels)"
)
CLASSIFIER_HELP = "classifier.safetensors from `label`: the ONNX file then gives class probabilities"
URL_HELP = "with label-studio: address before a picture's path, such as https:// or s3:// (default: its local files)"


def export_command(
    source: Annotated[str, argument(f"{MODEL_HELP}; or the output directory of `label`", "MODEL|LABELS")],
    out: Annotated[Path, option("the ONNX file, or a new folder for the labels", "FILE.onnx|DIR")],
    form: Annotated[str | None, option(FORMAT_HELP, flag="--format")] = None,
    classifier: Annotated[Path | None, option(CLASSIFIER_HELP, "FILE")] = None,
    images: Annotated[Path | None, option("of labels: the pictures, if labels.json does not lead there", "DIR")] = None,
    sort: Annotated[str | None, option("with imagefolder: link (default) or copy the pictures", "link|copy")] = None,
    url: Annotated[str | None, option(URL_HELP)] = None,
) -> None:
    """Write a model as ONNX, or labels for other tools.

    An ONNX file takes pixels and gives features, or with --classifier class probabilities; it is run and compared with
    torch before it is kept. Labels, with the corrections in labels.csv, become a dataset that Hugging Face, FiftyOne or
    Label Studio loads, or keywords for photo libraries.
    """
    labels = Path(source).suffix in (".json", ".csv") or Path(source, "labels.json").is_file()
    form = form or ("imagefolder" if labels else "onnx")
    of_form = {"--sort": ("imagefolder", sort), "--url": ("label-studio", url), "--classifier": ("onnx", classifier)}
    unused = {option: value for option, (its_form, value) in of_form.items() if form != its_form}
    refuse_unused(unused | {"--images": form == "onnx" and images}, f"with --format {form}")
    if form != "onnx":
        from protoadapt.labeling.dataset_export import LOCAL, export_labels

        done = export_labels(source, form, out, images=images, sort=sort or "link", url=LOCAL if url is None else url)
        say_skipped(done["skipped"])
        corrected = f", {count(done['corrected'], 'label')} corrected in labels.csv" if done["corrected"] else ""
        return print(f"{count(done['pictures'], 'picture')}{corrected} → {out}")
    from protoadapt.labeling import onnx_export
    from protoadapt.labeling.classifier import load_classifier

    made = onnx_export.export(source, out, load_classifier(classifier) if classifier else None)
    shapes = " → ".join(f"{kind} ({', '.join(map(str, made[kind]))})" for kind in ("input", "output"))
    print(f"{shapes}, {made['bytes'] / 1e6:.1f} MB, largest difference to torch {made['difference']:.1g}: {out}")
