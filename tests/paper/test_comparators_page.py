"""The comparators: parts of several processes merged, and what recipes say of them is what was measured."""

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.comparators import SYSTEMS, merged, merged_files, training_record
from paper.comparators_page import NAMES, own_label, read_comparators
from paper.quoted import LITERATURE
from protoadapt.core.errors import UserError
from protoadapt.core.evaluate import compare
from protoadapt.core.protocol import Protocol
from protoadapt.core.results import document_of
from protoadapt.training import TrainConfig
from protoadapt.training.recipes import RECIPES, comparators, earlier_run, recipe

RESULTS = Path(__file__).parents[2] / "results"


def test_recipes_state_what_was_measured():
    """1-shot / 5-shot with the system's own inference and with CIPA, as in the file of results."""
    (document,) = (d for d in read_comparators(RESULTS) if d["dataset"] == "cifar-fs")
    for name, one in document["systems"].items():
        if name not in comparators.__dict__ or not one["start"]:
            continue
        words = " ".join(RECIPES[name].__doc__.split())
        found = [one["results"][f"novel {shot}-shot"] for shot in (1, 5)]
        for label in ("cipa", own_label(one, found[1])):
            if label in found[0]:
                assert " / ".join(f"{results[label]['accuracy']:.1f}" for results in found) in words, (name, label)


def test_parts_are_merged_with_paired_differences():
    """Those of `Result.minus` on the same episodes; a slow head is paired with the first of them."""
    labels = np.repeat(np.arange(6), 24)
    features = np.random.default_rng(0).gamma(1.0, size=(6, 5))[labels] + np.random.default_rng(1).random((144, 5))
    protocol = Protocol(shot=1)
    many = compare(features, labels, ["protonet", "cipa"], protocol, episodes=30)
    few = compare(features, labels, ["bapa", "cipa"], protocol, episodes=10)
    on = {"split": "novel", "hash": "0"}

    def part(name, results):
        about = {"system": name, "recipe": name, "start": "", "dataset": "cifar-fs", "training": {}}
        return json.loads(json.dumps(document_of([one.to_json(**on) for one in results], **about)))

    document = merged([part("tpn", [*many, few[0]]), part("hct_r", many)])
    assert list(document["systems"]) == ["hct_r", "tpn"], "in the order of SYSTEMS"
    found = document["systems"]["tpn"]["results"]["novel 1-shot"]
    assert found["protonet"]["minus_reference"] == pytest.approx(many[0].minus(many[1]), abs=1e-4)
    assert found["bapa"]["minus_reference"] == pytest.approx(few[0].minus(few[1]), abs=1e-4)
    assert (found["bapa"]["episodes"], found["cipa"]["minus_reference"]) == (10, [0.0, 0.0])


def test_systems_of_an_earlier_document_stay(tmp_path):
    rows, labels = np.random.default_rng(2).random((144, 5)), np.repeat(np.arange(6), 24)
    [new] = compare(rows, labels, ["protonet"], Protocol(shot=1), episodes=9)
    about = {"system": "tpn", "recipe": "tpn", "start": "", "dataset": "cifar-fs", "training": {}}
    part = json.loads(json.dumps(document_of([new.to_json(split="novel")], **about)))
    before = {key: part[key] for key in ("dataset", "versions", "hardware")} | {"commit": "old"}
    before["systems"] = {"gnn": {"results": 1}, "hct_r": {"results": 2}}
    (tmp_path / "cifar-fs-tpn.json").write_text(json.dumps(part | {"commit": "new"}))
    (tmp_path / "all.json").write_text(json.dumps(before))
    document = merged_files(tmp_path / "all.json", tmp_path, "cifar-fs")
    assert list(document["systems"]) == ["hct_r", "tpn", "gnn"]
    assert (document["systems"]["gnn"], document["systems"]["hct_r"]) == ({"results": 1}, {"results": 2})
    assert (document["commit"], document["systems"]["tpn"]["commit"]) == ("old", "new")
    assert "versions" not in document["systems"]["tpn"], "what is the same is said once"
    with pytest.raises(UserError, match=r"no part cub-\*\.json"):
        merged_files(tmp_path / "all.json", tmp_path, "cub")


def test_what_is_kept_of_training():
    config = TrainConfig(epochs=3, init_from="/somewhere/run").to_dict()
    kept = training_record({"config": config, "seconds": 1.26, "best": {"epoch": 2, "score": 50.123, "cipa_1": 40.0}})
    assert kept == {"seconds": 1.3, "best": {"epoch": 2, "score": 50.12}, "config": {"epochs": 3}}


def test_systems_and_names_are_known():
    quoted = {row.method for rows in LITERATURE.values() for row in rows}
    assert set(NAMES.values()) <= quoted
    for system in SYSTEMS.values():
        assert system.start in ("", *SYSTEMS)
        assert not earlier_run(system.recipe) or system.start, "a recipe that starts from a network is given one"
        recipe(system.recipe, ["dataset=cifar-fs", *system.settings, *(["init_from=any"] if system.start else [])])
