"""`protoadapt models`."""

import re
from functools import partial
from typing import Annotated, Any

from protoadapt.cli.options import argument, option
from protoadapt.cli.progress import bars
from protoadapt.core.errors import for_terminal


def models_command(
    name: Annotated[str, argument("describe this network: one of the list, timm:NAME, or a file", "NAME")] = "",
    get: Annotated[str, option("download the weights of this network: one of the list, or timm:NAME", "NAME")] = "",
) -> None:
    """List, describe or download the networks that have a name.

    Nothing else downloads weights. They come from timm's own collection and are checked by their checksum.
    """
    from protoadapt.report.tables import text
    from protoadapt.vision.networks.cards import find_card, names, overview
    from protoadapt.vision.networks.timm_names import download_weights

    if get:
        with bars() as report:
            file = download_weights(get, partial(report, "bytes"))
        print(f"{get}: {file.stat().st_size / 1e6:,.0f} MB, {file}")
    if described := name or get:
        card = find_card(described) if described in names() else _metadata(described)
        print("\n".join(map(for_terminal, _card(card))))
        return
    rows = []
    for card in overview():
        licence = re.search(r"weights: ([^ ,;]+)", card.get("licence", ""))
        row = [card.get(key) for key in ("name", "trained_on", "size", "dim")]
        row += [card["mb"] and f"{card['mb']:,.0f}", licence and licence[1], card["state"]]
        rows.append(["–" if value is None else str(value) for value in row])
    print(text(["name", "trained on", "pixels", "dims", "MB", "licence", ""], rows))
    print("\n`protoadapt models NAME` describes a network, with accuracies that were measured and its")
    print("licence; `protoadapt models --get NAME` downloads one (what is said of those is timm's).")
    print("A model is also timm:NAME, FILE.onnx, or a training run, checkpoint or model file.")


def _metadata(name: str) -> dict[str, Any]:
    from protoadapt.vision import networks

    return networks.load(name)[1]


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
