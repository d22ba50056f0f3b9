"""The board: what people gave, and what follows from it whatever the order."""

import csv
import hashlib
from io import StringIO

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protoadapt import BAPAClassifier
from protoadapt.app.board import Board, Picture, add, class_name, drop, name_board, set_label
from protoadapt.core.errors import UserError
from protoadapt.labeling.outputs import COLUMNS, as_csv
from protoadapt.labeling.support import read_support, table_examples
from protoadapt.vision.pictures.walk import Skipped

METADATA = {
    "model": "tiny",
    "weights": "0" * 16,
    "size": 24,
    "mean": [0.5] * 3,
    "std": [0.25] * 3,
    "trained_on": "nothing",
}
METADATA |= {"calibration": None}
CLASSES = ("ant", "bee", "cat")


def cloud(count: int = 30, dim: int = 12) -> dict[str, Picture]:
    """Pictures of three classes, by turns; the truth is in their names."""
    rng = np.random.default_rng(0)
    means = rng.random((3, dim)) * 2
    rows = np.maximum(means[np.arange(count) % 3] + rng.normal(0, 0.15, (count, dim)), 0).astype(np.float32)
    keys = [hashlib.sha256(bytes([i])).hexdigest() for i in range(count)]
    return {key: Picture(f"{CLASSES[i % 3]}-{i}.jpg", b"jpeg", rows[i]) for i, key in enumerate(keys)}


def labelled(board: Board, shots: int = 1) -> Board:
    for i, key in enumerate(list(board.pictures)[: 3 * shots]):
        board = set_label(board, key, CLASSES[i % 3])
    return board


def answers(board: Board) -> dict[str, tuple]:
    result = name_board(board, METADATA)
    return {key: (row["label"], row["confidence"]) for key, row in zip(board.pictures, result["pictures"])}


def test_everything_is_named_and_as_a_fresh_estimator_names_it():
    board = labelled(add(Board(), cloud()))
    result = name_board(board, METADATA)
    assert all(row["file"].startswith(row["label"]) for row in result["pictures"])
    assert [(c["name"], c["support"], c["found"]) for c in result["classes"]] == [(name, 1, 9) for name in CLASSES]
    pictures = list(board.pictures.values())
    fresh = BAPAClassifier().fit(
        np.stack([p.feature for p in pictures]), np.array([p.label for p in pictures], dtype=object)
    )
    assert [row["label"] for row in result["pictures"]] == fresh.transduction_.tolist()
    found = [row for row, picture in zip(result["pictures"], pictures) if picture.label is None]
    sure = fresh.two_best_proba_[[p.label is None for p in pictures]]
    np.testing.assert_allclose([row["confidence"] for row in found], sure[:, 0], atol=1e-5)
    np.testing.assert_allclose([row["margin"] for row in found], sure[:, 0] - sure[:, 1], atol=1e-5)


def test_a_correction_equals_having_known_it_from_the_start():
    key = list(cloud())[7]
    board = set_label(labelled(add(Board(), cloud())), key, "cat")
    known = labelled(add(add(Board(), {key: cloud()[key]}, label="cat"), cloud()), 0)
    for i, other in enumerate(list(cloud())[:3]):
        known = set_label(known, other, CLASSES[i])
    assert answers(board) == answers(known)
    assert answers(board) != answers(labelled(add(Board(), cloud())))
    assert answers(set_label(board, key, None)) == answers(labelled(add(Board(), cloud()))), "and it can be taken back"


@settings(max_examples=20, deadline=None)
@given(st.permutations(list(cloud())), st.integers(1, 29))
def test_order_and_portions_do_not_matter(order, cut):
    pictures = cloud()
    board = Board()
    for part in (order[:cut], order[cut:]):
        board = add(board, {key: pictures[key] for key in part})
    for i, key in enumerate(list(pictures)[:3]):
        board = set_label(board, key, CLASSES[i])
    assert answers(board) == answers(labelled(add(Board(), pictures)))


def test_a_board_is_never_changed():
    board = add(Board(), cloud())
    before = dict(board.pictures)
    labelled(board), drop(board, next(iter(before))), add(board, cloud(40))
    assert board.pictures == before


def test_the_same_content_is_one_picture():
    key, picture = next(iter(cloud().items()))
    board = add(Board(), {key: picture}, label="ant")
    again = add(board, {key: picture._replace(name="copy.jpg")})
    assert again.pictures == board.pictures, "dropped once more without a label: it keeps label and name"
    assert add(board, {key: picture}, label="bee").pictures[key].label == "bee", "the last word counts"


def test_another_picture_of_the_same_name_gets_a_name_of_its_own():
    pictures = {key: picture._replace(name="IMG 1.tar.jpg") for key, picture in list(cloud().items())[:3]}
    board = add(Board(), pictures)
    assert [p.name for p in board.pictures.values()] == ["IMG 1.tar.jpg", "IMG 1.tar (2).jpg", "IMG 1.tar (3).jpg"]


def test_a_class_without_examples_is_gone_and_below_two_nothing_is_named():
    board = labelled(add(Board(), cloud()))
    first, second, third = list(board.pictures)[:3]
    assert board.classes == ["ant", "bee", "cat"]
    fewer = set_label(board, first, None)
    assert fewer.classes == ["bee", "cat"]
    assert {label for label, _ in answers(fewer).values()} == {"bee", "cat"}
    assert name_board(drop(fewer, second), METADATA) is None
    assert name_board(Board(), METADATA) is None
    assert drop(fewer, second).classes == ["cat"]
    assert third in drop(fewer, second).pictures


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("  oak \n leaf ", "oak leaf"),
        ("Ant", "ant"),
        ("ANT ", "ant"),
        ("e\u0301te\u0301", "été"),
        ("a\x00\x1b[b", "a[b"),
    ],
)
def test_names_as_people_meant_them(typed, meant):
    board = add(Board(), dict(list(cloud().items())[:1]), label="ant")
    assert class_name(typed, board) == meant


@pytest.mark.parametrize("typed", ["", "  \n", "\x00", "unknown", "Unknown ", "x" * 81])
def test_names_that_are_none(typed):
    with pytest.raises(UserError):
        class_name(typed, Board())


def test_a_picture_of_no_class_is_said_unknown_and_members_are_not():
    """The third class has no examples: by familiarity, however sure the name; without a calibration nothing is said."""
    board = add(Board(), cloud())
    for i, key in enumerate(list(board.pictures)[:12]):
        board = set_label(board, key, CLASSES[i % 3]) if i % 3 < 2 else board
    calibration = {"temperature": 1.0, "method": "bapa", "familiarity": {"way": [2], "threshold": [0.3]}}
    result = name_board(board, METADATA | {"calibration": calibration})
    assert [row["unknown"] for row in result["pictures"]] == [
        row["file"].startswith("cat") for row in result["pictures"]
    ]
    assert max(row["confidence"] for row in result["pictures"] if row["unknown"]) > 0.9
    assert (result["calibrated"], result["threshold"]) == (True, 0.3)
    plain = name_board(board, METADATA)
    assert (plain["calibrated"], plain["threshold"]) == (False, None)
    assert not any(row["unknown"] for row in plain["pictures"])


def test_the_table_is_label_s_and_comes_back_as_support(tmp_path):
    nasty = ["=1+1.jpg", 'a,b;"c"\nd.jpg', "naïve \\ 😀.jpg", "@SUM(1).png", "<b>.jpg", "plain.jpg"]
    pictures = list(cloud(6).items())
    board = add(Board(), {key: p._replace(name=name) for (key, p), name in zip(pictures, nasty)})
    board = set_label(set_label(board, pictures[0][0], "=cmd()"), pictures[1][0], 'bee, or wasp"')
    result = name_board(add(board, {}, [Skipped("note.txt", "no picture")]), METADATA)
    text = as_csv(result)
    rows = list(csv.reader(StringIO(text, newline="")))
    assert rows[0] == list(COLUMNS)
    assert [len(row) for row in rows] == [len(COLUMNS)] * 7
    assert not any(cell.startswith(("=", "+", "-", "@")) for row in rows for cell in row)
    assert result["skipped"] == [{"file": "note.txt", "reason": "no picture"}]
    for name in nasty:
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "labels.csv").write_bytes(text.encode())
    examples = list(table_examples(tmp_path / "labels.csv", tmp_path))
    assert {(example.file, example.label) for example in examples} == {
        (str(tmp_path / "./=1+1.jpg").replace(str(tmp_path), f"{tmp_path}/."), "=cmd()"),
        (str(tmp_path / nasty[1]), 'bee, or wasp"'),
    }, "what people gave, and no guesses"
    assert len(read_support([tmp_path / "labels.csv"], tmp_path).examples) == 2
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / nasty[1]).write_bytes(b"another file")  # the page cannot have said which
    with pytest.raises(UserError, match=r"another file, .*: write the full path"):
        read_support([tmp_path / "labels.csv"], tmp_path)
