"""The board: what people gave, and what follows from it whatever the order."""

import hashlib
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers.label_files import rows_of
from hypothesis import given, settings
from hypothesis import strategies as st

from protoadapt import BAPAClassifier
from protoadapt.app.board import (
    MOST_CLASSES,
    Board,
    BoardPicture,
    change,
    class_name,
    difference,
    labelling,
    name_board,
    unnamed_groups,
    with_pictures,
)
from protoadapt.app.resemblance import alike, faults
from protoadapt.core.errors import UserError
from protoadapt.labeling.outputs import labels_csv_text
from protoadapt.labeling.support import table_examples

METADATA = {"model": "tiny", "weights": "0" * 16, "size": 24, "mean": [0.5] * 3, "std": [0.25] * 3}
METADATA["trained_on"] = "nothing"
CLASSES = ("ant", "bee", "cat")


def cloud(count: int = 30, dim: int = 12, noise: float = 0.15) -> list[BoardPicture]:
    """Pictures of three classes, by turns; the truth is in their names."""
    rng = np.random.default_rng(0)
    means = rng.random((3, dim)) * 2
    rows = np.maximum(means[np.arange(count) % 3] + rng.normal(0, noise, (count, dim)), 0).astype(np.float32)
    keys = [hashlib.sha256(bytes([i])).hexdigest() for i in range(count)]
    return [BoardPicture(f"{CLASSES[i % 3]}-{i}.jpg", key, rows[i]) for i, key in enumerate(keys)]


def labelled(board: Board, labels: dict[int, str | None]) -> Board:
    return change(board, labelling(board, labels))


def whole(shots: int = 1) -> Board:
    return labelled(with_pictures(Board(), cloud()), {i: CLASSES[i % 3] for i in range(3 * shots)})


def answers(board: Board) -> dict[str, tuple]:
    records = name_board(board, METADATA).result["pictures"]
    return {board.pictures[i].key: (row["label"], row["confidence"]) for i, row in zip(board.present, records)}


def test_everything_is_named_and_as_a_fresh_estimator_names_it():
    board = whole()
    result = name_board(board, METADATA).result
    assert all(row["file"].startswith(row["label"]) for row in result["pictures"])
    assert [(c["name"], c["support"], c["found"]) for c in result["classes"]] == [(name, 1, 9) for name in CLASSES]
    labels = np.array([board.labels.get(i) for i in range(30)], dtype=object)
    fresh = BAPAClassifier().fit(np.stack([p.feature for p in board.pictures]), labels)
    assert [row["label"] for row in result["pictures"]] == fresh.transduction_.tolist()


def test_a_correction_equals_having_known_it_from_the_start_and_can_be_undone():
    board = whole()
    corrected = change(board, {"labels": {"7": "cat"}})
    labels = {7: "cat", 0: "ant", 1: "bee", 2: "cat"}
    alike, fresh = labelled(with_pictures(Board(), cloud()), labels), with_pictures(Board(), cloud())
    assert answers(corrected) == answers(change(fresh, labelling(fresh, labels))) == answers(alike)
    assert answers(corrected) != answers(board)
    assert change(corrected, difference(corrected, board)) == board


@settings(max_examples=20, deadline=None)
@given(st.permutations(range(30)), st.integers(1, 29))
def test_order_and_portions_do_not_matter(order, cut):
    pictures, board = cloud(), Board()
    for part in (order[:cut], order[cut:]):
        board = with_pictures(board, [pictures[i] for i in part])
    place = {picture.key: i for i, picture in enumerate(board.pictures)}
    board = labelled(board, {place[pictures[i].key]: CLASSES[i] for i in range(3)})
    assert answers(board) == answers(whole())


steps = st.lists(
    st.one_of(
        st.tuples(st.just("label"), st.integers(0, 29), st.sampled_from([*CLASSES, "dog", "unknown", None])),
        st.tuples(st.just("gone"), st.integers(0, 29), st.booleans()),
        st.tuples(st.just("rename"), st.sampled_from(CLASSES), st.sampled_from(["eel", "Fox", "bee"])),
    ),
    max_size=12,
)


@settings(max_examples=60, deadline=None)
@given(steps)
def test_every_change_has_an_inverse(taken):
    board = whole()
    for kind, one, other in taken:
        patch = labelling(board, {one: other}) if kind == "label" else {"gone": {str(one): other}}
        if kind == "rename":
            rest = [name for name in board.classes if name not in (one, other)]
            moved = {place: other for place, label in board.labels.items() if label == one}
            patch = {
                "labels": moved,
                "classes": [*rest, other, *([one] if one not in (other, *rest) and not moved else [])],
            }
        before, board = board, change(board, patch)
        assert change(board, difference(board, before)) == before
        assert change(before, difference(before, board)) == board


def test_the_same_content_is_one_picture_and_a_name_is_unique():
    first, *_ = cloud()
    board = with_pictures(Board(), [first, first._replace(name="copy.jpg")])
    assert [p.name for p in board.pictures] == ["ant-0.jpg"]
    same = [picture._replace(name="day/IMG 1.tar.jpg") for picture in cloud(3)]
    names = [p.name for p in with_pictures(Board(), same).pictures]
    assert names == ["day/IMG 1.tar.jpg", "day/IMG 1.tar (2).jpg", "day/IMG 1.tar (3).jpg"]


def test_below_two_classes_nothing_is_named_and_what_is_gone_counts_for_nothing():
    board = whole()
    fewer = labelled(board, {0: None})
    assert (fewer.classes, fewer.used) == (CLASSES, ["bee", "cat"])
    assert {label for label, _ in answers(fewer).values()} == {"bee", "cat"}
    without = change(fewer, {"gone": {1: True}})
    assert (without.used, len(without.present)) == (["cat"], 29)
    assert name_board(without, METADATA) is None
    assert name_board(Board(), METADATA) is None
    off = change(board, {"gone": {29: True}})
    assert answers(off) == answers(labelled(with_pictures(Board(), cloud()[:29]), {i: CLASSES[i] for i in range(3)}))


def test_names_as_people_meant_them():
    meant = {"  oak \n leaf ": "oak leaf", "Ant": "ant", "ANT ": "ant", "e\u0301te\u0301": "été", "a\x00\x1b[b": "a[b"}
    board = change(with_pictures(Board(), cloud(len(meant))), {"classes": ["ant"]})
    assert list(labelled(board, dict(enumerate(meant))).labels.values()) == list(meant.values())


def calls(function) -> int:
    """How many functions, also such of C, it calls."""
    seen = []
    sys.setprofile(lambda _, event, __: seen.append(event))
    try:
        function()
    finally:
        sys.setprofile(None)
    return sum(event.endswith("call") for event in seen)


def test_many_classes_and_many_pictures_of_one_name_take_steps_in_proportion():
    def named(count):
        pictures = [BoardPicture("image.png", f"{i:064x}", np.zeros(2, np.float32)) for i in range(count)]
        labelled(with_pictures(Board(), pictures), {i: f"class {i}" for i in range(count)})

    assert calls(lambda: named(400)) < 5 * calls(lambda: named(100))


def test_a_board_has_a_limit_of_classes():
    change(Board(), {"classes": [f"class {i}" for i in range(MOST_CLASSES)]})
    with pytest.raises(UserError, match="at most 5,000 classes, not 5,001"):
        change(Board(), {"classes": [f"class {i}" for i in range(MOST_CLASSES + 1)]})


@pytest.mark.parametrize("typed", ["", "  \n", "\x00", "unknown", "Unknown ", "x" * 81])
def test_names_that_are_none(typed):
    with pytest.raises(UserError):
        class_name(typed)


@pytest.mark.parametrize(
    "patch",
    [
        *(7, [], {"title": "x"}, {"labels": 7}, {"labels": {"30": "ant"}}, {"labels": {"-1": "ant"}}),
        *({"labels": {"x": "ant"}}, {"labels": {0: 7}}, {"labels": {0: "dog"}}, {"classes": ["ant"]}),
        *({"classes": ["ant", "bee", "cat", 7]}, {"classes": ["ant", "bee", "cat", "unknown"]}, {"gone": {0: 1}}),
        {"classes": ["ant", "bee", "cat", "ANT"]},
    ],
)
def test_a_change_that_makes_no_sense_is_refused(patch):
    board = whole()
    with pytest.raises(UserError):
        change(board, patch)


def test_a_kind_without_a_name_is_a_group():
    """The third class has no examples."""
    board = labelled(with_pictures(Board(), cloud(90)), {i: CLASSES[i % 3] for i in range(12) if i % 3 < 2})
    result = name_board(board, METADATA).result
    assert [row["group"] == "unnamed-1" for row in result["pictures"]] == [i % 3 == 2 for i in range(90)]
    assert result["unnamed"] == [{"name": "unnamed-1", "found": 30}]


def kinds(board: Board) -> list[set[str]]:
    """The true classes of the pictures in each group."""
    groups = unnamed_groups(board, name_board(board, METADATA))
    return [{board.pictures[place].name.partition("-")[0] for place in group} for group in groups]


def test_from_nothing_there_are_groups_and_a_name_takes_one_away():
    board = with_pictures(Board(), cloud(90))
    groups = unnamed_groups(board, None)
    assert sorted(map(len, groups)) == [30, 30, 30]
    assert sorted(kinds(board), key=str) == [{"ant"}, {"bee"}, {"cat"}]
    named = labelled(board, dict.fromkeys(groups[0], "first"))
    assert unnamed_groups(named, None) == [[], *groups[1:]], "the others stay as they are, in their places"
    named = labelled(named, dict.fromkeys(groups[1], "second"))
    (rest,) = unnamed_groups(named, name_board(named, METADATA))
    assert sorted(rest) == sorted(groups[2])


def test_a_group_never_holds_a_picture_with_a_label():
    board = labelled(with_pictures(Board(), cloud(90)), {i: CLASSES[i % 3] for i in range(12) if i % 3 < 2})
    assert kinds(board) == [{"cat"}]
    said = labelled(board, {2: "unknown", 5: "ant"})
    assert not {2, 5} & {place for group in unnamed_groups(said, name_board(said, METADATA)) for place in group}


@pytest.mark.parametrize("count", [0, 1, 3, 6])
def test_few_pictures_are_no_group(count):
    assert unnamed_groups(with_pictures(Board(), cloud(count)), None) == []


def test_a_picture_is_shown_beside_examples_and_pictures_like_it():
    board = whole(2)
    named = name_board(board, METADATA)
    found = alike(board, named, 10)  # a bee
    assert next(iter(found["examples"])) == "bee"
    (first, most), (second, less) = found["examples"]["bee"]
    assert {first, second} == {1, 4}
    assert most >= less
    assert found["reasons"][0].startswith("Its density is ")
    assert {board.pictures[place].name[:3] for place in found["similar"][:9]} == {"bee"}
    assert 10 not in found["similar"]
    assert alike(with_pictures(Board(), cloud(4)), None, 1)["similar"][0] in (0, 2, 3), "before anything is named too"


def test_none_of_these_is_a_person_s_word_and_no_picture_of_a_class():
    board = labelled(with_pictures(Board(), cloud(6)), {0: "bee", 1: "wasp", 2: "unknown"})
    result = name_board(labelled(board, {3: "unknown"}), METADATA).result
    rows = {row["file"]: row for row in rows_of(labels_csv_text(result))}
    said = [rows[board.pictures[place].name] for place in (2, 3)]
    assert [(row["label"], row["confidence"], row["runner_up"], row["unknown"]) for row in said] == [
        ("unknown", "1.0000", "", "yes")
    ] * 2
    assert [row["guess"] for row in said] == ["(page)", "(page)"]
    assert sum(one["found"] for one in result["classes"]) == 2, "pictures that nobody labelled"


def test_the_table_comes_back_as_support(tmp_path):
    nasty = ["=1+1.jpg", 'a,b;"c"\nd.jpg', "naïve \\ 😀.jpg", "@SUM(1).png", "<b>.jpg", "plain.jpg"]
    pictures = [picture._replace(name=name) for picture, name in zip(cloud(6), nasty)]
    board = labelled(with_pictures(Board(), pictures), {0: "=cmd()", 1: 'bee, or wasp"'})
    for name in nasty:
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "labels.csv").write_text(labels_csv_text(name_board(board, METADATA).result), "utf-8", newline="")
    examples = table_examples(tmp_path / "labels.csv", tmp_path)
    assert {(Path(one.file).name, one.label) for one in examples} == {(nasty[0], "=cmd()"), (nasty[1], 'bee, or wasp"')}


def test_check_finds_a_wrong_label_and_a_picture_that_is_there_twice():
    pictures = cloud(60, dim=64, noise=0.6)
    board = labelled(with_pictures(Board(), pictures), {i: CLASSES[i % 3] for i in range(30)} | {4: "cat"})
    twin = BoardPicture("twin.jpg", "f" * 64, board.pictures[50].feature)
    found = faults(with_pictures(board, [twin]))
    assert found[0] == {"title": "Almost the same picture", "ids": [50, 60]}
    assert {"title": "Labelled cat, looks like bee", "ids": [4]} in found
    with pytest.raises(UserError, match="nothing to check yet"):
        faults(labelled(with_pictures(Board(), cloud(3)), {0: "ant"}))
