"""`protoadapt calibrate`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from protoadapt.cli.models_command import describe_calibration
from protoadapt.cli.progress import progress
from protoadapt.core.errors import UserError
from protoadapt.core.files import check_output, write_text


def calibrate(
    features: Annotated[
        Path, typer.Argument(metavar="FILE", help="feature file of classes that the network was not trained on")
    ],
    card: Annotated[
        Path,
        typer.Option(metavar="MODEL.json", help="model card beside the model file; created or updated"),
    ],
    method: Annotated[str, typer.Option(help="a method of `protoadapt label`")] = "bapa",
    episodes: Annotated[
        int, typer.Option(help="episodes for each of 8 tasks (four numbers of classes from 3 to 20, 1 and 5 shots)")
    ] = 100,
) -> None:
    """Calibrate a model's confidences and unknown class.

    Fits the confidence temperature and the unknown-class threshold and stores both in the model card, where `label`
    reads them.
    """
    from protoadapt.core.features import load_features
    from protoadapt.labeling.calibration import calibrate as fit
    from protoadapt.report.captions import origin
    from protoadapt.vision.networks.cards import SCHEMA, read_card

    if check_output(card, features).suffix != ".json":
        raise UserError(f"a model card is a JSON file, not {card.name!r}: end the name in .json")
    content = read_card(card)
    if content is None and card.exists():
        raise UserError(f"{str(card)!r} is not a model card and is left as is: give another name")
    table = load_features(features)
    weights = table.metadata.get("weights")
    if not weights:
        raise UserError(f"{features.name!r} does not say which weights made it: make it with `protoadapt extract`")
    for option in ("pooling", "views"):
        if table.metadata.get(option, 1) != 1:
            raise UserError(
                f"{features.name!r} is made with --{option}, which `label` does not use: extract without it"
            )
    if table.metadata.get("split") == "base" and table.metadata.get("dataset") == table.metadata.get("trained_on"):
        raise UserError(
            f"{features.name!r} holds classes that the network was trained on, where its confidence is too high: "
            f"extract --split val"
        )
    content = content or {"schema": SCHEMA, "name": card.stem, "weights": weights}
    if content.get("weights") != weights:
        raise UserError(
            f"the features are of weights {weights}, the card of {content.get('weights')}: extract them again"
        )
    with progress("settings calibrated", 8) as report:
        calibration = fit(table.features, table.labels, method, episodes=episodes, on_progress=report)
    content["calibration"] = calibration | {"features": origin(table.metadata)}
    write_text(card, json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    print(describe_calibration(content["calibration"]))
