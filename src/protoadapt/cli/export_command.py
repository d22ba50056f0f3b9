"""`protoadapt export`."""

from pathlib import Path
from typing import Annotated

import typer

from protoadapt.cli.options import Model
from protoadapt.core.files import check_output


def export(
    model: Model,
    out: Annotated[Path, typer.Option(metavar="FILE.onnx", help="the ONNX file")],
    classifier: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="classifier.safetensors from `label`: the ONNX file then gives class probabilities"
        ),
    ] = None,
) -> None:
    """Write a network or a classifier as ONNX.

    The file takes pixels and gives features, or with --classifier class probabilities. It is run and compared with
    torch before it is kept.
    """
    from protoadapt.labeling import onnx_export
    from protoadapt.labeling.classifier import load_classifier

    fitted = None
    if classifier is not None:
        check_output(out, classifier)
        fitted = load_classifier(classifier)
    made = onnx_export.export(model, out, fitted)
    shapes = " → ".join(f"{kind} ({', '.join(map(str, made[kind]))})" for kind in ("input", "output"))
    print(f"{shapes}, {made['bytes'] / 1e6:.1f} MB, largest difference to torch {made['difference']:.1g}: {out}")
