"""The arena: every protocol and method runs, cells are kept, and the tables show what was measured."""

import json
from dataclasses import replace

import pytest

from paper import arena, arena_page
from protoadapt.core import tune
from protoadapt.core.errors import UserError
from protoadapt.core.features import save_features, synthetic_features


@pytest.fixture(scope="module")
def document(tmp_path_factory):
    folder = tmp_path_factory.mktemp("arena")
    save_features(folder / "x-novel.safetensors", synthetic_features(classes=22, rows=60, dim=16, spread=0.6))
    save_features(folder / "x-val.safetensors", synthetic_features(classes=16, rows=60, dim=16, spread=0.6, seed=1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arena, "TUNING_EPISODES", 2)
        patch.setattr(tune, "GRIDS", {"bapa": {"lam": (7, 10)}, "paddle": {"scale": (None, 8)}})
        patch.setattr(arena, "SLOW", {"α-TIM": "alpha_tim(n_iter=2)", "BAVARDAGE": "bavardage"})
        patch.setattr(arena, "SLOWEST", {"α-AM": "alpha_am(n_iter=1)"})
        options = {"episodes": 6, "slow_episodes": 3, "say": lambda words: None}
        only = ["x/balanced/5", "x/5 of all/1", "x/30*/1", "x/1 query/1"]
        arena.run(folder, folder / "arena.json", **options, only=only)
        before = (folder / "arena.json").read_text()
        again = arena.run(folder, folder / "arena.json", **options, only=only)
        assert json.loads(before)["sets"] == json.loads(json.dumps(again))["sets"], "cells that are there are kept"
        patch.setattr(arena, "fitted", None)  # what was found is taken from the cells
        once_more = arena.run(folder, folder / "arena.json", **options, only=["x/balanced/5"], again=True)
        assert _unmoved(once_more) == _unmoved(again)
        patch.setattr(arena, "PLAIN", {**arena.PLAIN, "BAPA": "bapa(n_iter=0)"})  # another BAPA
        other = json.loads(json.dumps(again))
        (cell,) = [one for one in _cells(other) if (one["protocol"], one["shot"]) == ("balanced", 5)]
        anew = {"BAPA, fitted": {"kappa": 2.0}}
        patch.setattr(arena, "fitted", lambda *given: anew if given[-1] == anew.keys() else None)
        (folder / "other.json").write_text(json.dumps(other))
        moved = arena.run(folder, folder / "other.json", **options, only=["x/balanced/5"], ours=True)
        assert _cells(moved)[-1]["fitted"] == cell["fitted"] | anew
        cell["fitted"] |= anew
        (folder / "other.json").write_text(json.dumps(other))
        measured = arena.run(folder, folder / "other.json", **options, only=["x/balanced/5"], again=True)
        _same_differences(_cells(moved)[-1], _cells(measured)[-1], _cells(again)[-1])
    return again


def _unmoved(document):
    """Cells without the slowest method, whose difference is not measured again but follows from rounded numbers."""
    cells = [{key: value for key, value in cell.items() if key != "moved"} for cell in _cells(document)]
    return [
        {**cell, "methods": {one: row for one, row in cell["methods"].items() if one not in arena.SLOWEST}}
        for cell in cells
    ]


def _same_differences(moved, measured, before):
    """Differences that moved with another BAPA are those that are measured with it; half-widths are those of before."""
    assert moved["methods"].keys() == measured["methods"].keys() == before["methods"].keys()
    assert moved["methods"]["BAPA"] == measured["methods"]["BAPA"] != before["methods"]["BAPA"]
    for one, row in moved["methods"].items():
        assert row["accuracy"] == measured["methods"][one]["accuracy"]
        for key in {"bapa", "peer"} & row.keys():
            assert row[key][0] == pytest.approx(measured["methods"][one][key][0], abs=0.021)
            if one in moved["moved"]["methods"]:
                assert row[key][1:] == before["methods"][one][key][1:]


def _cells(document):
    cells = json.loads(json.dumps(document))["sets"]["x"]["cells"]
    return sorted(cells, key=lambda cell: (cell["protocol"], cell["shot"]))


def test_every_method_has_its_numbers(document):
    cells = {(cell["protocol"], cell["shot"]): cell for cell in document["sets"]["x"]["cells"]}
    assert set(cells) == {("balanced", 5), ("5 of all", 1), ("30 % foreign", 1), ("1 query", 1)}
    every = {*arena.PLAIN, *arena.FITTED, *arena.BASED, *arena.TOLD, *arena.SLOW}
    assert set(cells["1 query", 1]["methods"]) == every
    assert set(cells["balanced", 5]["methods"]) == every | set(arena.SLOWEST)
    assert cells["5 of all", 1]["way"] == 22
    seen = dict.fromkeys(every, 6) | dict.fromkeys(arena.SLOW, 3)
    assert cells["1 query", 1]["episodes"] == seen
    assert cells["balanced", 5]["episodes"] == seen | dict.fromkeys(arena.SLOWEST, 3)
    for cell in cells.values():
        assert cell["methods"]["BAPA"]["bapa"][:2] == [0, 0]
        assert all(0 <= row["accuracy"][0] <= 100 for row in cell["methods"].values())
        assert all(("auroc" in row) == (cell["protocol"] == "30 % foreign") for row in cell["methods"].values())


def test_every_method_is_beside_the_form_of_bapa_that_knows_as_much(document):
    methods = next(cell for cell in document["sets"]["x"]["cells"] if cell["protocol"] == "balanced")["methods"]
    for rival, ours in arena.PEER.items():
        if rival in {**arena.FITTED, **arena.TOLD}:  # on the same episodes
            apart = methods[ours]["accuracy"][0] - methods[rival]["accuracy"][0]
            assert methods[rival]["peer"][0] == pytest.approx(apart, abs=0.011)
    assert "peer" not in methods["CIPA"], "its peer is BAPA itself"
    assert "peer" in methods["BAVARDAGE"]


def test_without_base_statistics_methods_that_need_them_stay_out(tmp_path):
    bare = synthetic_features(classes=8, rows=40, dim=8, spread=0.6)
    for part in ("novel", "val"):
        save_features(tmp_path / f"y-{part}.safetensors", replace(bare, **dict.fromkeys(bare.base)))
    settings = {"PADDLE": {}, "UNEM": {}, "BAPA, fitted": {}}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arena, "fitted", lambda *arguments: settings)
        patch.setattr(arena, "SLOW", {"α-TIM": "alpha_tim(n_iter=2)", "BAVARDAGE": "bavardage"})
        options = {"episodes": 2, "say": lambda words: None, "only": ["y/3 queries/1"]}
        made = arena.run(tmp_path, tmp_path / "arena.json", **options)
    [cell] = made["sets"]["y"]["cells"]
    assert set(cell["methods"]) == {*arena.PLAIN, *arena.FITTED, *arena.TOLD, "α-TIM"}


def test_the_tables_show_them(document):
    text = arena_page.numbers(document)
    assert text.count("### Methods") == len(arena.LEAGUES)
    accuracies = text.partition("### Balanced")[2]
    row = next(line for line in accuracies.splitlines() if line.startswith("| BAPA |"))
    cell = next(c for c in document["sets"]["x"]["cells"] if c["protocol"] == "balanced")
    assert f"{cell['methods']['BAPA']['accuracy'][0]:.1f}" in row
    lines = [line for line in text.splitlines() if line.startswith("| balanced, 5-shot |")]
    for line, (ours, rivals) in zip(lines, arena.LEAGUES.items(), strict=True):
        kind = "bapa" if ours == "BAPA" else "peer"
        assert f"{min(cell['methods'][rival][kind][0] for rival in rivals):+.1f} ±" in line


def test_the_balance_counts_cells_ahead_level_and_behind():
    def cell(protocol, **differences):
        rows = {rival: {kind: numbers} for rival, (kind, *numbers) in differences.items()}
        return {"protocol": protocol, "shot": 1, "methods": rows}

    cells = [
        cell(
            "balanced",
            CIPA=("bapa", 2.0, 1.0, None),
            UNEM=("peer", -2.0, 1.0, 3.0),
            **{"TIM-ADM": ("peer", 1.0, 0.5, 1.0)},
        ),
        cell("one class", CIPA=("bapa", 0.5, 1.0, 4.0), **{"TIM-ADM": ("peer", -9.0, 0.5, 1.0)}),
        cell("1 query", CIPA=("bapa", -0.7, 1.0, 4.0)),
    ]
    lines = arena_page.balance_table({"sets": {"x": {"cells": cells[:2]}, "y": {"cells": cells[2:]}}}).splitlines()[2:]
    assert [[word.strip() for word in line.strip("|").split("|")] for line in lines] == [
        ["BAPA", "CIPA", "1", "2", "0", "+0.5"],
        ["BAPA, fitted", "UNEM", "0", "0", "1", "-2.0"],
        ["BAPA, told equal", "TIM-ADM", "1", "0", "0", "+1.0"],  # where it is told the truth
    ]


def test_how_many_episodes_a_cell_has_is_said():
    found = {"x": {1: {"BAPA": 500, "α-TIM": 100}, 5: {"BAPA": 500, "α-TIM": 100}}, "y": {1: {"BAPA": 1000}}}
    assert arena_page.episode_counts(found) == "500 to 1,000 episodes per cell; α-TIM 100."
    assert arena_page.episode_counts({"x": {1: {"BAPA": 7, "CIPA": 7}}}) == "7 episodes per cell."


def test_the_picture_shows_means_over_datasets():
    methods = [{name: {"accuracy": value} for name in arena_page.DRAWN} for value in (40.0, 60.0)]
    rows = [[{"case": "1 query", "shot": shot, "methods": part} for shot in (1, 5)] for part in methods]
    groups, series = arena_page.bars_of_extremes({"sets": [{"rows": part} for part in rows]})
    assert groups == ["1 query"]
    assert series == {name: [50.0] for name in arena_page.DRAWN}


def test_a_folder_without_features_is_said(tmp_path):
    with pytest.raises(UserError, match=r"no NAME-novel\.safetensors"):
        arena.run(tmp_path, tmp_path / "arena.json")
