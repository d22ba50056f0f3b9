"""The arena: every protocol and method runs, cells are kept, and ahead, level and behind are counted."""

from dataclasses import replace

import pytest

from benchmarks.synthetic import synthetic_features
from paper import arena, arena_page
from protoadapt.core import evaluate
from protoadapt.core.errors import UserError
from protoadapt.core.features import save_features
from protoadapt.core.methods import method

ONLY = ["x/balanced/5/5/*", "x/5 of all/*/1/plain", "x/25 + 5*/5/1/plain", "x/1 query/20/1/plain"]
OPTIONS = {"episodes": 6, "slow_episodes": 3, "say": lambda words: None}
SHORT = {
    "EOL": "paper.rivals.eol:eol(n_iter=2)",
    "α-TIM": "alpha_tim(n_iter=2)",
    "α-AM": "paper.rivals.alpha_am:alpha_am(n_iter=1)",
}
QUICK = {*arena.QUICK, *arena.FITTED}


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    folder = tmp_path_factory.mktemp("arena")
    save_features(folder / "x-novel.safetensors", synthetic_features(classes=22, rows=60, dim=16, spread=0.6))
    save_features(folder / "x-val.safetensors", synthetic_features(classes=16, rows=60, dim=16, spread=0.6, seed=1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arena, "TUNING_EPISODES", 2)
        patch.setattr(evaluate, "GRIDS", {"paddle": {"scale": (None, 8)}})
        patch.setattr(arena, "SLOW", SHORT)
        first = arena.run(folder, folder, only=ONLY, **OPTIONS)
        again = arena.run(folder, folder, only=ONLY[:1], again=True, **OPTIONS)
        assert sorted(again) == sorted(first), "the same cell measured once more is the same"
        patch.setattr(arena, "fitted", None)
        kept = arena.run(folder, folder, only=ONLY, **OPTIONS)
        assert kept == again == arena.read(folder / "arena.csv"), "cells that are there are kept"
    return first


def test_every_method_has_its_numbers(measured):
    cells = {cell: [one for one in measured if one.cell == cell] for cell in {one.cell for one in measured}}
    of = {cell: {one.method for one in rows} for cell, rows in cells.items()}
    assert of == {
        "x/balanced/5/5/plain": QUICK | {*SHORT},
        "x/balanced/5/5/whitened": QUICK | {*SHORT, "BAVARDAGE"},
        "x/5 of all/all/1/plain": QUICK | {"EOL", "α-TIM"},
        "x/25 + 5 foreign/5/1/plain": QUICK | {"EOL", "α-TIM"},
        "x/1 query/20/1/plain": QUICK | {"EOL", "α-TIM"},
    }
    for one in measured:
        assert one.episodes == (3 if one.method in SHORT else 6)
        assert 0 <= one.accuracy <= 100
        assert (one.auroc is None) == ("foreign" not in one.cell)
        assert bool(one.settings) == (one.method in arena.FITTED)
        if one.method == "BAPA":
            assert (one.difference, one.difference_interval) == (0, 0)


def test_differences_are_paired_with_the_form_of_bapa_that_knows_as_much(measured):
    rows = [one for one in measured if one.cell == "x/balanced/5/5/plain" and one.episodes == 6]
    accuracy = {one.method: one.accuracy for one in rows}
    assert {one.method for one in rows if one.against == arena.TOLD_EQUAL} == {*arena.EVEN}
    for one in rows:
        assert one.difference == pytest.approx(accuracy[one.against] - one.accuracy, abs=0.011)


def test_whitened_rows_are_those_of_the_transform():
    table = synthetic_features(classes=8, rows=40, dim=8, spread=0.6)
    options = {"episodes": 20}
    white = arena.whitened(table)
    ours = evaluate.evaluate(white.features, white.labels, method("cipa", power="off"), **options)
    theirs = evaluate.evaluate(table.features, table.labels, "whiten+cipa", **options, **table.base)
    assert (ours.correct == theirs.correct).all()


def test_photographs_of_one_network_find_settings_on_the_largest_other_set(tmp_path):
    for name, classes in {"lite0-a": 8, "lite0-b": 12, "lite0-c": 6, "other-a": 5}.items():
        bare = synthetic_features(classes=classes, rows=12, dim=8)
        save_features(tmp_path / f"{name}.safetensors", replace(bare, **dict.fromkeys(bare.base)))
    found = {name: known.stem for name, (_, known) in arena.feature_files(tmp_path).items()}
    assert found == {"lite0-a": "lite0-b", "lite0-b": "lite0-a", "lite0-c": "lite0-b"}
    said = []
    options = {**OPTIONS, "say": said.append}
    assert arena.run(tmp_path, tmp_path, only=["lite0-c/*/20/1/*"], **options) == []
    assert len(said) == len(arena.PROTOCOLS) - 1  # all but the whitened ones, and "5 of all"
    assert all("is left out: " in words for words in said), "six classes are too few"


def test_the_balance_counts_cells_ahead_level_and_behind():
    def row(cell, rival, against, difference, half):
        return arena.Row(cell, rival, against, 9, 50.0, 1.0, None, difference, half, None, None, "")

    rows = [
        row("x/balanced/5/1/plain", "CIPA", "BAPA", 2.0, 1.0),
        row("x/balanced/20/1/plain", "CIPA", "BAPA", 0.5, 1.0),
        row("x/1 query/5/1/plain", "CIPA", "BAPA", -2.0, 1.0),
        row("x/balanced/5/1/plain", "TIM-ADM", arena.TOLD_EQUAL, 1.0, 0.5),
        row("x/balanced/5/1/whitened", "BAVARDAGE", "BAPA", -1.0, 0.5),
        row("x/balanced/5/1/whitened", "CIPA", "BAPA", 1.0, 0.5),
    ]
    lines = [
        [word.strip() for word in line.strip("|").split("|")] for line in arena_page.balance_table(rows).splitlines()
    ]
    of = {line[0]: [word for word in line[1:] if word] for line in lines}
    assert of["CIPA"] == ["1·1·0", "0·0·1", "+0.5"]
    assert of["TIM-ADM, sizes given"] == ["1·0·0", "+1.0"]
    assert of["BAVARDAGE"] == ["0·0·1", "-1.0"]
    assert of["others, whitened"] == ["1·0·0", "+1.0"]
    assert of["OSLO"] == []


def test_a_folder_without_features_is_said(tmp_path):
    with pytest.raises(UserError, match=r"no NAME-novel\.safetensors"):
        arena.run(tmp_path, tmp_path)
