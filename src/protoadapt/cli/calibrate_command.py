"""`protoadapt calibrate`."""

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from protoadapt.cli.models_command import describe_calibration
from protoadapt.cli.options import MODEL_HELP, refuse_unused
from protoadapt.cli.progress import bars, say
from protoadapt.core.errors import UserError
from protoadapt.core.files import check_output, write_text

if TYPE_CHECKING:
    from protoadapt.core.features import Features


def calibrate_command(
    sources: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE|DIR …",
            help="collections of classes that the network was not trained on, best several of different kinds: feature "
            "files, or directories with one folder of pictures per class",
        ),
    ],
    card: Annotated[
        Path,
        typer.Option(metavar="MODEL.json", help="model card beside the model file; created or updated"),
    ],
    model: Annotated[str | None, typer.Option(help=f"{MODEL_HELP}; needed for directories")] = None,
    episodes: Annotated[
        int,
        typer.Option(
            min=2,  # every second one has pictures of other classes
            help="tasks of each kind (four numbers of classes from 3 to 20; 1, 3 and 5 shots) per collection",
        ),
    ] = 40,
) -> None:
    """Calibrate which pictures a model calls unknown.

    Fits how the threshold of familiarity, below which a picture is of none of the classes, follows from the pictures of
    a task, and stores it in the model card, where `label` reads it. All collections count the same.
    """
    from protoadapt.core.features import load_features
    from protoadapt.labeling.calibration import calibrate as fit
    from protoadapt.report.captions import origin
    from protoadapt.vision.networks.cards import SCHEMA, read_card

    if check_output(card, *sources).suffix != ".json":
        raise UserError(f"a model card is a JSON file, not {card.name!r}: end the name in .json")
    if not any(map(Path.is_dir, sources)):
        refuse_unused({"--model": model}, "with feature files, which say what made them")
    content = read_card(card)
    if content is None and card.exists():
        raise UserError(f"{str(card)!r} is not a model card and is left as is: give another name")
    tables = {}
    for source in sources:
        tables[source] = _embedded(source, model) if source.is_dir() else load_features(source)
        _check_made(source.name, tables[source].metadata)
        weights = tables[source].metadata["weights"]
        content = content or {"schema": SCHEMA, "name": card.stem, "weights": weights}
        if content.get("weights") != weights:
            raise UserError(
                f"the features of {source.name!r} are of weights {weights}, the card of {content.get('weights')}: "
                f"extract them again"
            )
    with bars() as report:
        on_progress = partial(report, "collections calibrated", total=len(tables))
        pairs = [(table.features, table.labels) for table in tables.values()]
        calibration = fit(pairs, episodes=episodes, on_progress=on_progress)
    names = [
        source.name if source.is_dir() else table.metadata.get("folder") or origin(table.metadata)
        for source, table in tables.items()
    ]
    content = dict(content or {}) | {"calibration": calibration | {"features": ", ".join(names)}}
    write_text(card, json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    print(describe_calibration(content["calibration"]))


def _check_made(name: str, metadata: Mapping[str, Any]) -> None:
    if not metadata.get("weights"):
        raise UserError(f"{name!r} does not say which weights made it: make it with `protoadapt extract`")
    for option in ("pooling", "views"):
        if metadata.get(option, 1) != 1:
            raise UserError(f"{name!r} is made with --{option}, which `label` does not use: extract without it")
    if metadata.get("split") == "base" and metadata.get("dataset") == metadata.get("trained_on"):
        raise UserError(
            f"{name!r} holds classes that the network was trained on, where every picture is familiar: extract "
            f"--split val"
        )


def _embedded(folder: Path, model: str | None) -> "Features":
    """The pictures of a folder of class folders, embedded as `label` does."""
    import torch

    from protoadapt.core.features import Features
    from protoadapt.labeling.support import class_names, folder_examples
    from protoadapt.vision import networks
    from protoadapt.vision.embed import embed_files
    from protoadapt.vision.feature_store import Store

    if model is None:
        raise UserError(f"{str(folder)!r} is a directory of pictures: name the network that embeds them with --model")
    support = folder_examples(folder)
    for note in support.notes():
        say(f"note: {note}")
    examples = support.examples
    network, metadata = networks.load(model)
    store = Store(None, metadata["weights"], metadata["size"])
    with bars() as report:
        files = [example.file for example in examples]
        contents, _ = embed_files(files, network, metadata, store, lambda done, of: report(folder.name, done, of))
    number = {name: code for code, name in enumerate(class_names(examples))}
    readable = [(c, number[example.label]) for c, example in zip(contents, examples) if c is not None]
    if not readable:
        raise UserError(f"there is no picture in the class folders of {str(folder)!r}: give one folder per class")
    rows = torch.from_numpy(store.rows([content for content, _ in readable])).float()
    return Features(rows, torch.tensor([code for _, code in readable]), metadata={"weights": metadata["weights"]})
