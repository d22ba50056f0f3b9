"""What is seen: every picture under its name, and names from outside as text."""

import json

import numpy as np
import pytest
from helpers.pages import Parsed

from protoadapt.app import view
from protoadapt.app.board import Board, Picture, add
from protoadapt.vision.pictures.walk import Skipped

NASTY = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "${alert(1)}`",
    "{{this}}",
    "a\nb\u202egnp",
    "</div>",
]


def board(**labels: str | None) -> Board:
    return Board({name: Picture(f"{name}.png", b"jpeg", np.zeros(2), label) for name, label in labels.items()})


def result_of(board: Board, calibrated: bool = True, **guesses: tuple[str, float, bool]) -> dict:
    rows = []
    for key, picture in board.pictures.items():
        label, confidence, unknown = guesses.get(key, (picture.label, 1.0, False))
        row = {"file": picture.name, "thumb": "data:image/jpeg;base64,AAAA", "label": label, "unknown": unknown}
        rows.append({**row, "support": picture.label is not None, "confidence": confidence})
    return {"pictures": rows, "calibrated": calibrated}


def cards(page: Parsed) -> dict[str, list[str]]:
    """Shelf → keys in order, the examples first. Shelves and cards are in the order of the page."""
    found: dict[str, list[str]] = {}
    shelf = None
    for (element, attributes), words in zip(page.elements, page.texts):
        if element == "h3":
            shelf = found.setdefault("".join(words).split(" ")[0], [])
        elif element == "button":
            shelf.append(attributes["data-key"])
    return found


def test_nothing_yet_says_what_to_do():
    assert "Nothing here yet" in view.show(Board(), None)


def test_before_two_classes_pictures_wait():
    page = Parsed(view.show(board(a="cat", b=None, c=None), None))
    assert cards(page) == {"cat": ["a"], "Not": ["b", "c"]}
    assert page.all("p", "summary")[0][1].startswith("3 pictures. Add an example of one more class")


def test_by_class_the_least_certain_first_and_strangers_apart():
    pictures = board(a="cat", b="dog", c=None, d=None, e=None, f=None)
    guesses = {"c": ("cat", 0.9, False), "d": ("cat", 0.6, False), "e": ("dog", 0.999, False), "f": ("dog", 0.5, True)}
    page = Parsed(view.show(pictures, result_of(pictures, **guesses)))
    assert cards(page) == {"cat": ["a", "d", "c"], "dog": ["b", "e"], "Perhaps": ["f"]}
    assert [text for _, text in page.all("small")] == ["2 found · 1 example", "1 found · 1 example", "1 picture"]
    assert [text for _, text in page.all("span", "line")] == ["60 %", "90 %", "> 99 %", "dog?"]
    assert len(page.all("span", "bar")) == 3, "of a stranger nobody can say how sure its name is"
    assert json.loads(page.all("div", "board")[0][0]["data-classes"]) == ["cat", "dog"]
    plain = Parsed(view.show(pictures, result_of(pictures, False, **guesses)))
    assert [text for _, text in plain.all("span", "line")][:2] == ["0.60", "0.90"]
    assert "no probabilities" in plain.all("p", "summary")[0][1]


def test_many_pictures_of_a_class_are_counted_not_shown():
    pictures = board(a="cat", b="dog", **{f"p{i:03d}": None for i in range(200)})
    page = Parsed(
        view.show(pictures, result_of(pictures, **{f"p{i:03d}": ("cat", i / 200, False) for i in range(200)}))
    )
    assert len(cards(page)["cat"]) == 1 + view.SHOWN
    assert page.all("p", "more")[0][1] == f"and {200 - view.SHOWN} more, more certain than these"
    page = Parsed(view.show(pictures, result_of(pictures, **{f"p{i:03d}": ("cat", i / 200, True) for i in range(200)})))
    assert page.all("p", "more")[0][1] == f"and {200 - view.SHOWN} more"


@pytest.mark.parametrize("name", NASTY)
def test_names_from_outside_change_no_markup(name):
    def shape(word: str) -> list:
        seen = add(Board(), {"k1": Picture(word, b"x", np.zeros(1)), "k2": Picture("b", b"x", np.zeros(1))}, label=word)
        shown = view.show(seen, None) + view.notice([word], [Skipped(word, word)])
        return Parsed(f"<main>{shown}</main>").shape

    assert shape(name) == shape("name")


def test_what_was_left_out_is_said_in_short():
    many = [Skipped(f"{i}.txt", "no picture") for i in range(10)]
    page = Parsed(view.notice(skipped=many))
    assert page.all("p")[0][1] == "10 files were skipped; the others are below."
    assert [text for _, text in page.all("li")] == [f"{i}.txt: no picture" for i in range(4)] + ["and 6 more"]
    assert view.notice() == ""
