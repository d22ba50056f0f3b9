"""Commands on embedding networks: models, export, calibrate. What they need takes seconds to load: when called."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from protoadapt.cli.options import progress
from protoadapt.core.errors import UserError
from protoadapt.core.files import check_output, written_whole
from protoadapt.core.untrusted import for_terminal
from protoadapt.report import tables


def models(
    name: Annotated[str, typer.Argument(help="a name or a model file: print its card")] = "",
) -> None:
    """The embedding networks that have a name.

    With one of them: all that its card says.
    """
    from protoadapt.vision.networks.cards import find_card, overview

    if name:
        card = find_card(name)
        if card is None:
            raise UserError(f"the model {name!r} has no card here: `protoadapt models` lists what there is")
        print("\n".join(map(for_terminal, _card(card))))
        return
    header = ["name", "trained on", "network", "pixels", "dims", "MB"]
    header += ["5-way 1-shot", "5-shot", "measured on", "calibrated", ""]
    print(tables.text(header, [_row(told) for told in overview()]))
    print("\nAccuracies on different pictures cannot be compared: docs/models.md has models side by side on the same.")
    print("Also: timm:NAME, FILE.onnx, and any run, checkpoint or model file of your own (docs/models.md).")


def export(
    model: Annotated[str, typer.Argument(help="a name that `protoadapt models` lists, a run or a model file")],
    out: Annotated[Path, typer.Option(metavar="FILE.onnx", help="where the ONNX file goes")],
    classifier: Annotated[
        Path | None, typer.Option(help="a classifier.safetensors of `protoadapt label`: pixels to class probabilities")
    ] = None,
) -> None:
    """Write a network or a classifier as ONNX.

    An embedding network, or a fitted classifier on top of it, checked against torch.
    """
    from protoadapt.labeling import onnx_export as exporting
    from protoadapt.labeling.classifier import load_classifier

    fitted = None
    if classifier is not None:
        check_output(out, classifier)
        fitted = load_classifier(classifier)
    with Console(stderr=True).status(f"writing and checking {out.name}"):
        told = exporting.export(model, out, fitted)
    shapes = " → ".join(f"{kind} ({', '.join(map(str, told[kind]))})" for kind in ("input", "output"))
    print(f"{shapes}, {told['bytes'] / 1e6:.1f} MB, largest difference to torch {told['difference']:.1g}: {out}")


def calibrate(
    features: Annotated[Path, typer.Argument(help="features of classes that the model was not trained on")],
    card: Annotated[Path, typer.Option(metavar="MODEL.json", help="the card beside the model's file, made or filled")],
    method: Annotated[str, typer.Option(help="one that `protoadapt label` takes")] = "bapa",
    episodes: Annotated[int, typer.Option(help="for each of 3 to 20 classes with 1 and 5 shots")] = 100,
) -> None:
    """Learn how sure a model's answers are.

    And when a picture is of no named class; what is learned is kept in the model's card.
    """
    from protoadapt.core.features import load_features
    from protoadapt.labeling.calibration import calibrate as learn
    from protoadapt.vision.networks.cards import SCHEMA, read_card

    if check_output(card, features).suffix != ".json":
        raise UserError(f"a model's card is JSON, not {card.name!r}: end the name in .json")
    told = read_card(card)
    if told is None and card.exists():
        raise UserError(f"{str(card)!r} is no model card and is left alone: give another name")
    table = load_features(features)
    weights = table.metadata.get("weights")
    if not weights:
        raise UserError(f"{features.name!r} does not say which weights made it: make it with protoadapt extract")
    for option in ("pooling", "views"):
        if table.metadata.get(option, 1) != 1:
            raise UserError(f"{features.name!r} is made as label never does: extract it without --{option}")
    if table.metadata.get("split") == "base" and table.metadata.get("dataset") == table.metadata.get("trained_on"):
        raise UserError(
            f"{features.name!r} is of the classes that the model was trained on, and of those it is too sure: extract "
            f"--split val"
        )
    told = told or {"schema": SCHEMA, "name": card.stem, "weights": weights}
    if told.get("weights") != weights:
        raise UserError(f"the features are of weights {weights}, the card of {told.get('weights')}: extract them again")
    with progress("answering", 8) as done:
        found = learn(table.features, table.labels, method, episodes=episodes, on_progress=done)
    told["calibration"] = found | {"features": tables.origin(table.metadata)}
    with written_whole(card) as partial:
        partial.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n")
    print(_calibration(told["calibration"]))


def _row(told: dict[str, Any]) -> list[str]:
    numbers = [n for n in told.get("numbers") or [] if n["way"] == 5]
    measured = [f"{n.get('data')} ({n.get('method')})" for n in numbers]
    accuracy: dict[int, str] = {}
    for number, on in zip(numbers, measured):
        if on == measured[0]:
            accuracy.setdefault(number["shot"], f"{number['accuracy']:.1f}")
    plain = [told.get(key) for key in ("name", "trained_on", "backbone", "size", "dim")]
    size = f"{told['mb']:.1f}" if told["mb"] else None
    calibrated = "yes" if told.get("calibration") else "no"
    row = [*plain, size, accuracy.get(1), accuracy.get(5), measured[0] if measured else None]
    row += [calibrated if told.get("numbers") else None, told["state"]]
    return ["–" if value is None else str(value) for value in row]


def _card(card: dict[str, Any]) -> list[str]:
    """Lines; a card of one's own may lack anything."""
    words = {key: value for key, value in card.items() if not isinstance(value, (dict, list)) and key != "schema"}
    lines = [f"{key.replace('_', ' ')}: {value}" for key, value in words.items() if value is not None]
    for key, tell in (("numbers", _numbers), ("calibration", _calibration)):
        try:
            told = tell(card[key]) if card.get(key) else {"numbers": "", "calibration": "not calibrated"}[key]
        except (LookupError, TypeError, ValueError, OverflowError, AttributeError):
            told = f"its {key} are incomplete" if key == "numbers" else "its calibration is incomplete"
        lines += ["", *told.split("\n")] if told else []
    return lines


def _numbers(told: list[dict[str, Any]]) -> str:
    header = ["pictures", "method", "way", "shot", "accuracy", "episodes"]
    rows = [
        [n["data"], n["method"], str(n["way"]), str(n["shot"]), f"{n['accuracy']:.2f} ± {n['ci95']:.2f}"]
        + [f"{n['episodes']:,}"]
        for n in told
    ]
    return tables.text(header, rows)


def _calibration(told: dict[str, Any]) -> str:
    close = told["familiarity"]
    rows = [
        [str(close["way"][i]), f"{close['threshold'][i]:.3f}"]
        + [f"{100 * close[key][i]:.0f} %" for key in ("kept", "found")]
        + [f"{close['auroc'][i]:.3f}"]
        for i in range(len(close["way"]))
    ]
    return (
        f"calibrated for {told['method']} on {told['features']}: temperature {told['temperature']:.3f}, "
        f"ECE {100 * told['ece_before']:.1f} → {100 * told['ece']:.1f} %\n"
        f"a picture is of no named class when its familiarity is below the threshold "
        f"(AUROC of its probability alone: {told['auroc']:.3f})\n"
        + tables.text(["classes", "threshold", "known kept", "foreign found", "AUROC"], rows)
    )
