"""The arena: every protocol and method runs, cells are kept, and the balance of methods is counted."""

import json
from dataclasses import replace

import pytest

from paper import arena, arena_page
from protoadapt.core import evaluate
from protoadapt.core.errors import UserError
from protoadapt.core.features import save_features, synthetic_features

ONLY = ["x/balanced/5", "x/5 of all/1", "x/30*/1", "x/1 query/1"]
OPTIONS = {"episodes": 6, "slow_episodes": 3, "say": lambda words: None}


@pytest.fixture(scope="module")
def document(tmp_path_factory):
    folder = tmp_path_factory.mktemp("arena")
    save_features(folder / "x-novel.safetensors", synthetic_features(classes=22, rows=60, dim=16, spread=0.6))
    save_features(folder / "x-val.safetensors", synthetic_features(classes=16, rows=60, dim=16, spread=0.6, seed=1))
    slow = {
        "α-TIM": "alpha_tim(n_iter=2)",
        "BAVARDAGE": "bavardage",
        "α-AM": "paper.rivals.alpha_am:alpha_am(n_iter=1)",
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arena, "TUNING_EPISODES", 2)
        patch.setattr(evaluate, "GRIDS", {"bapa": {"lam": (7, 10)}, "paddle": {"scale": (None, 8)}})
        patch.setattr(arena, "SLOW", slow)
        first = json.loads(json.dumps(arena.run(folder, folder / "arena.json", only=ONLY, **OPTIONS)))
        again = arena.run(folder, folder / "arena.json", only=ONLY[:1], again=True, **OPTIONS)
        assert json.loads(json.dumps(again)) == first, "the same cell measured once more is the same"
        patch.setattr(arena, "fitted", None)
        kept = arena.run(folder, folder / "arena.json", only=ONLY, **OPTIONS)
        assert json.loads(json.dumps(kept)) == first, "cells that are there are kept"
    return first


def test_every_method_has_its_numbers(document):
    cells = {(cell["protocol"], cell["shot"]): cell for cell in document["sets"]["x"]["cells"]}
    assert set(cells) == {("balanced", 5), ("5 of all", 1), ("30 % foreign", 1), ("1 query", 1)}
    every = {*arena.PLAIN, *arena.FITTED, *arena.BASED, *arena.EVEN, *arena.SLOW}
    assert set(cells["balanced", 5]["methods"]) == every
    assert set(cells["1 query", 1]["methods"]) == every - {"α-AM"}
    assert cells["5 of all", 1]["way"] == 22
    assert cells["balanced", 5]["episodes"] == dict.fromkeys(every, 6) | dict.fromkeys(arena.SLOW, 3)
    for cell in cells.values():
        assert cell["methods"]["BAPA"]["bapa"][:2] == [0, 0]
        assert all(0 <= row["accuracy"][0] <= 100 for row in cell["methods"].values())
        assert all(("auroc" in row) == (cell["protocol"] == "30 % foreign") for row in cell["methods"].values())


def test_every_method_is_beside_the_form_of_bapa_that_knows_as_much(document):
    methods = next(cell for cell in document["sets"]["x"]["cells"] if cell["protocol"] == "balanced")["methods"]
    for rival, ours in arena.PEER.items():
        if rival in {**arena.FITTED, **arena.EVEN}:  # on the same episodes
            apart = methods[ours]["accuracy"][0] - methods[rival]["accuracy"][0]
            assert methods[rival]["peer"][0] == pytest.approx(apart, abs=0.011)
    assert "peer" not in methods["CIPA"], "its peer is BAPA itself"


def test_without_base_statistics_methods_that_need_them_stay_out(tmp_path, monkeypatch):
    bare = synthetic_features(classes=8, rows=40, dim=8, spread=0.6)
    for part in ("novel", "val"):
        save_features(tmp_path / f"y-{part}.safetensors", replace(bare, **dict.fromkeys(bare.base)))
    monkeypatch.setattr(arena, "fitted", lambda *arguments: {"PADDLE": {}, "UNEM": {}, "BAPA, fitted": {}})
    monkeypatch.setattr(arena, "SLOW", {"α-TIM": "alpha_tim(n_iter=2)", "BAVARDAGE": "bavardage"})
    made = arena.run(tmp_path, tmp_path / "arena.json", only=["y/3 queries/1"], **OPTIONS)
    [cell] = made["sets"]["y"]["cells"]
    assert set(cell["methods"]) == {*arena.PLAIN, *arena.FITTED, *arena.EVEN, "α-TIM"}


def test_the_balance_counts_cells_ahead_level_and_behind():
    def cell(protocol, **differences):
        rows = {rival.replace("_", "-"): {kind: numbers} for rival, (kind, *numbers) in differences.items()}
        return {"protocol": protocol, "methods": {**{ours: {} for ours in arena.LEAGUES}, **rows}}

    even = cell("balanced", CIPA=("bapa", 2.0, 1.0, None), UNEM=("peer", -2.0, 1.0, 3.0), TIM_ADM=("peer", 1.0, 0.5, 1))
    one = cell("one class", CIPA=("bapa", 0.5, 1.0, 4.0), TIM_ADM=("peer", -9.0, 0.5, 1.0))
    few = cell("1 query", CIPA=("bapa", -0.7, 1.0, 4.0))
    lines = arena_page.balance_table({"sets": {"x": {"cells": [even, one]}, "y": {"cells": [few]}}}).splitlines()[2:]
    assert [[word.strip() for word in line.strip("|").split("|")] for line in lines] == [
        ["BAPA", "CIPA", "1", "2", "0", "+0.5"],
        ["BAPA, fitted", "UNEM", "0", "0", "1", "-2.0"],
        ["BAPA, sizes given", "TIM-ADM", "1", "0", "0", "+1.0"],  # where its assumption holds
    ]


def test_a_folder_without_features_is_said(tmp_path):
    with pytest.raises(UserError, match=r"no NAME-novel\.safetensors"):
        arena.run(tmp_path, tmp_path / "arena.json")
