"""The demonstration in small: everything it promises is there, and it can be asked for again."""

import json
import os
import signal

import pytest
from PIL import Image

from protoadapt.cli import demonstration
from protoadapt.core.features import load_features
from protoadapt.core.records import right_answers
from protoadapt.training.watch import Watch

SMALL = ["epochs=1", "size=16", "backbone=conv4", "width=4", "validation_episodes=5"]
LITTLE = {"per_class": 20, "episodes": 8}


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    out = tmp_path_factory.mktemp("demo") / "out"
    demonstration.run(out, SMALL, **LITTLE)
    return out


def test_tables_figures_and_features_are_there(done):
    told = (done / "results.md").read_text()
    for words in ("glyphs novel: 5-way 1-shot", "5-way 5-shot", "| protonet |", "| cipa |", "minus protonet"):
        assert words in told
    for name in demonstration.FIGURES:
        assert f"({name})" in told
        with Image.open(done / name) as picture:
            assert min(picture.size) > 300
            assert len(picture.convert("RGB").resize((64, 64)).getcolors(4096)) > 20, "more than an empty sheet"
    table = load_features(done / "features.safetensors")
    assert table.features.shape == (80 * 20, 4)
    assert table.base_mean is not None
    assert len((done / "features.index.csv").read_text().splitlines()) == 1 + 80 * 20
    assert not [*done.rglob(".*.partial")]


def test_results_say_how_they_came_about(done):
    files = sorted((done / "results").iterdir())
    assert [file.name for file in files] == [
        f"{shot}-shot-{name}.json" for shot in demonstration.SHOTS for name in ("cipa", "protonet", "semi_protonet")
    ]
    for file in files:
        told = json.loads(file.read_text())
        assert told["features"]["split"] == "novel"
        assert told["features"]["hash"] == load_features(done / "features.safetensors").hash
        assert (told["seed"], told["episodes"], len(right_answers(told))) == (0, 8, 8)
        assert told["training"]["config"]["epochs"] == 1
        assert told["training"]["config"]["seed"] == 0
        assert {"ce", "rotation", "hct"} == set(told["training"]["config"]["phases"][1]["weights"])
        assert told["versions"]["torch"]
        assert "cores" in told["hardware"]


def test_once_more_evaluates_the_same_network(done, capsys):
    before = (done / "results" / "1-shot-cipa.json").read_text()
    log = (done / "run" / "log.csv").read_bytes()
    demonstration.run(done, SMALL, **LITTLE)
    assert "holds a run already" in capsys.readouterr().out
    assert (done / "run" / "log.csv").read_bytes() == log
    after = (done / "results" / "1-shot-cipa.json").read_text()
    assert json.loads(after)["correct"] == json.loads(before)["correct"]
    assert json.loads(after)["features"]["weights"] == json.loads(before)["features"]["weights"]


def test_an_interrupted_run_is_gone_on_with(done, tmp_path, monkeypatch, capsys):
    """Asked to stop after its first step it leaves no tables; asked again it ends as if nothing had been."""
    (tmp_path / "pictures").symlink_to(done / "pictures")
    with monkeypatch.context() as patch:
        patch.setattr(Watch, "step", lambda watch, rows: os.kill(os.getpid(), signal.SIGTERM))
        demonstration.run(tmp_path, SMALL, **LITTLE)
    assert "the same command goes on from here" in capsys.readouterr().out
    assert not (tmp_path / "results.md").exists()
    demonstration.run(tmp_path, SMALL, **LITTLE)
    whole, parts = (json.loads((out / "results" / "5-shot-cipa.json").read_text()) for out in (done, tmp_path))
    assert whole["features"]["hash"] == parts["features"]["hash"]
