"""`protoadapt calibrate`."""

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from protoadapt.cli.options import argument, option
from protoadapt.cli.progress import bars
from protoadapt.core.errors import UserError
from protoadapt.core.files import check_output, write_text

_SOURCES_HELP = "feature files of classes that the network was not trained on, best of several different collections"
EPISODES_HELP = "tasks of each kind (four numbers of classes from 3 to 20; 1, 3 and 5 shots) per collection"


def calibrate_command(
    sources: Annotated[list[Path], argument(_SOURCES_HELP, "FILE …")],
    card: Annotated[Path, option("model card beside the model file; created or updated", "MODEL.json")],
    episodes: Annotated[int, option(EPISODES_HELP, min=2)] = 40,  # every second one has pictures of other classes
) -> None:
    """Calibrate which pictures a model calls unknown.

    Fits how the threshold of familiarity, below which a picture is of none of the classes, follows from the pictures of
    a task, and stores it in the model card, where `label` reads it. All collections count the same.
    """
    from protoadapt.core.features import load_features
    from protoadapt.labeling.familiarity import calibrate
    from protoadapt.report.tables import origin
    from protoadapt.vision.networks.cards import CARD_SCHEMA, read_card

    if check_output(card, *sources).suffix != ".json":
        raise UserError(f"a model card is a JSON file, not {card.name!r}: end the name in .json")
    content = read_card(card)
    if content is None and card.exists():
        raise UserError(f"{str(card)!r} is not a model card and is left as is: give another name")
    tables = [load_features(source) for source in sources]
    made_by = [_weights(source.name, table.metadata) for source, table in zip(sources, tables)]
    content = content or {"schema": CARD_SCHEMA, "name": card.stem, "weights": made_by[0]}
    if {*made_by} != {content.get("weights")}:
        of = f"the features are of weights {', '.join(dict.fromkeys(made_by))}, the card of {content.get('weights')}"
        raise UserError(f"{of}: extract them again")
    with bars() as report:
        on_progress = partial(report, "collections calibrated", total=len(tables))
        pairs = [(table.features, table.labels) for table in tables]
        calibration = calibrate(pairs, episodes=episodes, on_progress=on_progress)
    calibration["features"] = ", ".join(table.metadata.get("folder") or origin(table.metadata) for table in tables)
    write_text(card, json.dumps({**content, "calibration": calibration}, indent=1, ensure_ascii=False) + "\n")
    print(f"calibrated on {calibration['features']}: {card}")


def _weights(name: str, metadata: Mapping[str, Any]) -> str:
    """The weights that made a feature file. Raises UserError where `label` would not make its features."""
    if not metadata.get("weights"):
        raise UserError(f"{name!r} does not say which weights made it: make it with `protoadapt extract`")
    for setting in ("pooling", "views"):
        if metadata.get(setting, 1) != 1:
            raise UserError(f"{name!r} is made with --{setting}, which `label` does not use: extract without it")
    if metadata.get("split") == "base" and metadata.get("dataset") == metadata.get("trained_on"):
        raise UserError(
            f"{name!r} holds classes that the network was trained on, where every picture is familiar: extract "
            f"--split val"
        )
    return str(metadata["weights"])
