"""`protoadapt models`."""

from typing import Annotated, Any

from protoadapt.cli.options import argument
from protoadapt.core.errors import UserError
from protoadapt.core.untrusted import for_terminal


def models_command(
    name: Annotated[str, argument("a name or a model file: print its card", "NAME")] = "",
) -> None:
    """List the networks that have a name, or describe one.

    With the accuracies measured with each and whether it is calibrated: whether unknown pictures are marked.
    """
    from protoadapt.report.tables import text
    from protoadapt.vision.networks.cards import find_card, overview

    if name:
        card = find_card(name)
        if card is None:
            raise UserError(f"no card for the model {name!r}: `protoadapt models` lists the named ones")
        print("\n".join(map(for_terminal, _card(card))))
        return
    header = ["name", "trained on", "network", "pixels", "dims", "MB"]
    header += ["5-way 1-shot", "5-way 5-shot", "measured on", "calibrated", ""]
    print(text(header, [_row(card) for card in overview()]))
    print("\nCompare accuracies only where they are measured on the same pictures: docs/models.md does so.")
    print("A model is also timm:NAME, FILE.onnx, or a training run, checkpoint or model file of your own.")


def _row(card: dict[str, Any]) -> list[str]:
    numbers = [n for n in card.get("numbers") or [] if n["way"] == 5]
    measured = [f"{n.get('data')} ({n.get('method')})" for n in numbers]
    accuracy = {n["shot"]: f"{n['accuracy']:.1f}" for n, on in zip(numbers, measured) if on == measured[0]}
    row = [card.get(key) for key in ("name", "trained_on", "backbone", "size", "dim")]
    row += [f"{card['mb']:.1f}" if card["mb"] else None, accuracy.get(1), accuracy.get(5)]
    row.append(measured[0] if measured else None)
    calibrated = "yes" if card.get("calibration") else "no" if numbers else None
    return ["–" if value is None else str(value) for value in (*row, calibrated, card["state"])]


def _card(card: dict[str, Any]) -> list[str]:
    """A card as lines; a user's own may lack anything."""
    plain = {key: value for key, value in card.items() if not isinstance(value, (dict, list)) and key != "schema"}
    lines = [f"{key.replace('_', ' ')}: {value}" for key, value in plain.items() if value is not None]
    for key, describe, absent in (("numbers", _numbers, ""), ("calibration", describe_calibration, "not calibrated")):
        try:
            part = describe(card[key]) if card.get(key) else absent
        except (LookupError, TypeError, ValueError, OverflowError, AttributeError):
            part = f"the card's {key} {'are' if key == 'numbers' else 'is'} incomplete"
        lines += ["", *part.split("\n")] if part else []
    return lines


def _numbers(numbers: list[dict[str, Any]]) -> str:
    from protoadapt.report.tables import text

    rows = [
        [
            n["data"],
            n["method"],
            str(n["way"]),
            str(n["shot"]),
            f"{n['accuracy']:.2f} ± {n['ci95']:.2f}",
            f"{n['episodes']:,}",
        ]
        for n in numbers
    ]
    return text(["pictures", "method", "way", "shot", "accuracy", "episodes"], rows)


def describe_calibration(calibration: dict[str, Any]) -> str:
    """When a picture is unknown, and what says so."""
    return (
        f"calibrated on {calibration['features']}: a picture is unknown when its familiarity is below the threshold of "
        f"its task, which {len(calibration['thresholds'])} linear models give"
    )
