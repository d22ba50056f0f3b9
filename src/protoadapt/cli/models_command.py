"""`protoadapt models`."""

from typing import Annotated, Any

from protoadapt.cli.options import argument
from protoadapt.core.errors import UserError, for_terminal


def models_command(
    name: Annotated[str, argument("print the card of this network", "NAME")] = "",
) -> None:
    """List the networks that have a name, or describe one."""
    from protoadapt.report.tables import text
    from protoadapt.vision.networks.cards import find_card, overview

    if name:
        card = find_card(name)
        if not card:
            raise UserError(f"no card for the model {name!r}: `protoadapt models` lists the named ones")
        print("\n".join(map(for_terminal, _card(card))))
        return
    keys = ("name", "trained_on", "backbone", "size", "dim")
    rows = []
    for card in overview():
        row = [card.get(key) for key in keys]
        row += [card["mb"] and f"{card['mb']:.1f}", card["state"]]
        rows.append(["–" if value is None else str(value) for value in row])
    print(text(["name", "trained on", "network", "pixels", "dims", "MB", ""], rows))
    print("\n`protoadapt models NAME` prints the accuracies measured with a network, and its licence.")
    print("A model is also timm:NAME, FILE.onnx, or a training run, checkpoint or model file of your own.")


def _card(card: dict[str, Any]) -> list[str]:
    """A card as lines."""
    from protoadapt.report.tables import text

    plain = {key: value for key, value in card.items() if not isinstance(value, (dict, list)) and key != "schema"}
    lines = [f"{key.replace('_', ' ')}: {value}" for key, value in plain.items() if value is not None]
    header = ("data", "method", "way", "shot", "accuracy", "episodes")
    if card.get("numbers"):
        numbers = [n | {"accuracy": f"{n['accuracy']:.2f} ± {n['ci95']:.2f}"} for n in card["numbers"]]
        lines += ["", *text(header, [[str(n[key]) for key in header] for n in numbers]).split("\n")]
    return lines
