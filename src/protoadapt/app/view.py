"""The markup of a board. `report.markup` escapes every text that comes from outside."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from protoadapt.app.board import Board
from protoadapt.core.errors import count
from protoadapt.report.markup import Html, name_of, tag, visible
from protoadapt.vision.pictures.decode import data_url
from protoadapt.vision.pictures.walk import Skipped

SHOWN = 60
"""Pictures shown per class, the least certain; the table and the report have all."""
LISTED = 4
"""Skipped files that are listed by name."""


class Card(NamedTuple):
    """One picture as it is shown."""

    key: str
    name: str
    thumb: str
    label: str | None
    example: bool = False  # a person gave the label
    confidence: float = 0.0
    unknown: bool = False


def show(board: Board, result: dict[str, Any] | None) -> Html:
    """All pictures by class; result: of `board.name_board`."""
    if not board.pictures:
        return EMPTY
    cards = _cards(board, result)
    percent = bool(result and result["calibrated"])
    shelves = [_shelf(name, [c for c in cards if c.label == name and not c.unknown], percent) for name in board.classes]
    if result is None:
        waiting = [card for card in cards if not card.example]
        shelves += [_shelf("Not named yet", waiting, percent, "waiting")] if waiting else []
    elif foreign := [card for card in cards if card.unknown]:
        shelves.append(_shelf("Perhaps none of these", foreign, percent, "foreign"))
    return tag(
        "div",
        tag("p", _summary(board, cards, result), class_="summary", role="status"),
        shelves,
        class_="board",
        data_classes=json.dumps(board.classes),
    )


def notice(lines: Sequence[str] = (), skipped: Sequence[Skipped] = ()) -> Html:
    """Messages about the last step, if any."""
    if not lines and not skipped:
        return Html("")
    left_out: list[object] = []
    if skipped:
        left_out.append(tag("p", f"{count(len(skipped), 'file was', 'files were')} skipped; the others are below."))
        items = [tag("li", name_of(one.file), f": {one.reason}") for one in skipped[:LISTED]]
        more = [tag("li", f"and {len(skipped) - LISTED:,} more")] if len(skipped) > LISTED else []
        left_out.append(tag("ul", items, more))
    return tag("div", [tag("p", line) for line in lines], left_out, class_="notice", role="alert")


def step(number: int, title: str, note: str) -> Html:
    head = tag("h2", tag("span", number, class_="number", aria_hidden="true"), title)
    return tag("div", head, tag("p", note), class_="step")


def heading(title: str, lead: str) -> Html:
    return tag("header", tag("h1", title), tag("p", lead), class_="lead")


EMPTY = tag(
    "div",
    tag("p", tag("strong", "Nothing here yet.")),
    tag("p", "Drop a few examples of two classes above, then all your other pictures: their names appear here."),
    tag("p", "Or drop everything first and name pictures one by one, by a click."),
    class_="board empty",
)


def _cards(board: Board, result: dict[str, Any] | None) -> list[Card]:
    if result is None:
        return [Card(key, p.name, data_url(p.thumb), p.label, p.label is not None) for key, p in board.pictures.items()]
    return [
        Card(key, row["file"], row["thumb"], row["label"], row["support"], row["confidence"], row["unknown"])
        for key, row in zip(board.pictures, result["pictures"])
    ]


def _summary(board: Board, cards: Sequence[Card], result: dict[str, Any] | None) -> str:
    examples = sum(card.example for card in cards)
    if result is None:
        missing = "an example of one more class" if board.classes else "examples of two classes"
        return f"{count(len(cards), 'picture')}. Add {missing}, and all other pictures are named."
    words = f"{count(len(cards) - examples, 'picture')} named from {count(examples, 'example')}"
    words += f" of {count(len(board.classes), 'class', 'classes')}. Least certain first: click what is wrong."
    return words if result["calibrated"] else words + " Scores of this model rank pictures; they are no probabilities."


def _shelf(name: str, cards: Sequence[Card], percent: bool, style: str = "") -> Html:
    """One class: its examples, and the pictures named so, the least certain first."""
    examples = [card for card in cards if card.example]
    found = sorted((card for card in cards if not card.example), key=lambda card: (card.confidence, card.name))
    kinds = ("found", "found") if not style else ("picture", "pictures")
    counts = [count(len(found), *kinds)] if found else []
    counts += [count(len(examples), "example")] if examples else []
    more = len(found) - SHOWN
    rest = f"and {more:,} more" + ("" if style else ", more certain than these")
    return tag(
        "section",
        tag("h3", name_of(name), " ", tag("small", " · ".join(counts))),
        tag("div", [_button(card) for card in examples[:SHOWN]], class_="grid examples") if examples else None,
        tag("div", [_button(card, percent) for card in found[:SHOWN]], class_="grid") if found else None,
        tag("p", rest, class_="more") if more > 0 else None,
        class_=f"shelf {style}".strip(),
    )


def _button(card: Card, percent: bool = False) -> Html:
    shown, said = [tag("img", src=card.thumb, alt="", width=96, height=96, loading="lazy")], visible(card.name)
    if card.example:
        said += f", an example of {card.label}"
    elif card.unknown:  # a confidence, which assumes one of the classes, would mislead
        shown.append(tag("span", tag("span", f"{card.label}?", class_="who"), class_="line"))
        said += f", perhaps {card.label}, perhaps none"
    elif card.label is not None:
        share = _percent(card.confidence) if percent else f"{card.confidence:.2f}"
        bar = tag("span", tag("span", style=f"width:{100 * card.confidence:.1f}%"), class_="bar")
        shown += [tag("span", tag("span", share), class_="line"), bar]
        said += f", {card.label}, {share}"
    known = {"data_key": card.key, "data_name": card.name, "data_label": card.label or "", "data_given": card.example}
    return tag("button", shown, type="button", class_="card", title=card.name, aria_label=said, **known)


def _percent(share: float) -> str:
    return "> 99 %" if 0.995 <= share < 1 else f"{100 * share:.0f} %"
