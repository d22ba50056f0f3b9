"""The demonstration in small: everything it promises is there, and it can be asked for again."""

import json
import os
import re
import signal
from dataclasses import replace

import numpy as np
import pytest
import torch
from helpers.pages import Parsed, board_data

from protoadapt.cli import demo_run
from protoadapt.cli.report_command import report_command
from protoadapt.core.features import load_features
from protoadapt.training.datasets import load_images
from protoadapt.training.loop import Run

SMALL = ["epochs=1", "size=16", "backbone=conv4", "width=4", "batch=512", "validation_episodes=5"]
LITTLE = {"per_class": 20, "episodes": 8}


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    out = tmp_path_factory.mktemp("demo") / "out"
    demo_run.run_demo(out, SMALL, **LITTLE)
    return out


def test_tables_report_and_features_are_there(done):
    page = Parsed((done / "report.html").read_text())
    tables = "".join(text for _, text in page.all("table", "results"))
    for words in ("glyphs novel: 5-way 1-shot", "5-way 5-shot", "protonet", "cipa", "minus protonet"):
        assert words in tables
    links = [a["href"] for a, _ in page.all("a")]
    assert links == ["#accuracy", "#motion", "#training", "#provenance"]
    assert len(page.all("table", "results")) == 2, "one per number of shots"
    curves = [a for a, _ in page.all("polyline") if not a["class"].startswith("path")]
    assert len(curves) >= 3, "losses and accuracies"
    assert [len(a["points"].split()) for a, _ in page.all("polyline", "path")] == [21] * 5
    table = load_features(done / "features.safetensors")
    assert table.features.shape == (80 * 20, 4)
    assert table.base_mean is not None
    assert len(table.names) == 80 * 20
    assert not [*done.rglob(".*.partial")]


def test_a_folder_is_labelled_in_the_end(done, capsys):
    document = json.loads((done / "named" / "labels.json").read_text())
    assert len(document["pictures"]) == 5 * (3 + 12)
    assert [one["support"] for one in document["classes"]] == [3] * 5
    small = board_data((done / "named" / "report.html").read_text())["small"]
    assert [(one or "")[:16] for one in small] == ["data:image/webp;"] * 75
    novel = load_images("glyphs", "novel", size=16, cache_dir=done / "pictures", per_class=20)
    assert {one["name"] for one in document["classes"]} == set(novel.class_names[:5])
    words = demo_run.label_some(novel, done)
    assert re.match(r"(\d+) of 60 pictures in .*photos are named correctly", words)
    again = json.loads((done / "named" / "labels.json").read_text())
    assert [one["label"] for one in again["pictures"]] == [one["label"] for one in document["pictures"]]


def test_the_report_command_makes_the_same_page_from_the_files(done, tmp_path, monkeypatch):
    report_command([done], tmp_path / "again.html")
    again, first = (Parsed(file.read_text()) for file in (tmp_path / "again.html", done / "report.html"))
    for kind in ("a", "polyline", "circle"):
        assert sorted(map(str, again.all(kind))) == sorted(map(str, first.all(kind)))


def test_results_are_of_the_features_that_are_there(done):
    stored = load_features(done / "features.safetensors")
    results = [json.loads(file.read_text()) for file in (done / "results").iterdir()]
    assert len(results) == len(demo_run._SHOTS) * len(demo_run.METHODS_SHOWN)
    assert {(one["features"]["hash"], one["features"]["split"]) for one in results} == {(stored.hash, "novel")}


def test_the_path_is_of_the_task_nearest_to_the_average(done):
    table = load_features(done / "features.safetensors")
    names = [str(code) for code in range(80)]
    shown = [demo_run.typical_paths(table, names, np.array(right)) for right in ((0, 3, 6), (3, 0, 6), (3, 6, 0))]
    starts = [json.dumps(one["rows"]) for one in shown]
    assert len({*starts}) == 2, "the second and twice the first"
    assert starts[1] == starts[2]
    dead = replace(table, features=torch.zeros_like(table.features))
    assert demo_run.typical_paths(dead, names, np.arange(3)) is None, (
        "where all features are the same there is no plane"
    )


def test_once_more_evaluates_the_same_network(done, capsys):
    before = (done / "results" / "1-shot-cipa.json").read_text()
    log = (done / "run" / "log.csv").read_bytes()
    demo_run.run_demo(done, SMALL, **LITTLE)
    assert "continuing the run" in capsys.readouterr().out
    assert (done / "run" / "log.csv").read_bytes() == log
    after = (done / "results" / "1-shot-cipa.json").read_text()
    assert json.loads(after)["correct"] == json.loads(before)["correct"]
    assert json.loads(after)["features"]["weights"] == json.loads(before)["features"]["weights"]


def test_an_interrupted_run_is_gone_on_with(done, tmp_path, monkeypatch, capsys):
    """Asked to stop after its first step it leaves no tables; asked again it ends as if nothing had been."""
    (tmp_path / "pictures").symlink_to(done / "pictures")
    with monkeypatch.context() as patch:
        patch.setattr(Run, "report", lambda *_, **more: os.kill(os.getpid(), signal.SIGTERM))
        demo_run.run_demo(tmp_path, SMALL, **LITTLE)
    assert "run the same command to continue" in capsys.readouterr().out
    assert not (tmp_path / "report.html").exists()
    demo_run.run_demo(tmp_path, SMALL, **LITTLE)
    whole, parts = (json.loads((out / "results" / "5-shot-cipa.json").read_text()) for out in (done, tmp_path))
    assert whole["features"]["hash"] == parts["features"]["hash"]
