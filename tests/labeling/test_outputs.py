"""What the report gets: the contract of labels.json, links and paths."""

import json
import os
from urllib.parse import unquote

import numpy as np
import pytest
from helpers.label_files import listing
from helpers.pages import board_data

from protoadapt.core.errors import UserError
from protoadapt.core.files import locked, sweep
from protoadapt.labeling import outputs
from protoadapt.labeling.check import check_folder
from protoadapt.labeling.collection import Collection
from protoadapt.labeling.label_methods import make_estimator
from protoadapt.labeling.outputs import with_images
from protoadapt.labeling.suggest_folder import suggest_folder
from protoadapt.report.label_page import labels_page


def test_the_report_leads_to_the_pictures(folder, named):
    result = named(out="results/named")
    assert result["folder"] == "../../images"
    linked = list(board_data(labels_page(with_images(result, folder / "results" / "named")))["links"].values())
    assert len(linked) == 24
    assert all((folder / "results" / "named" / unquote(way)).is_file() for way in linked)
    assert {way.split("/")[2] for way in linked} == {"images", "support"}
    assert str(folder) not in labels_page(result)
    assert outputs.link_between(folder, "/pictures") is None, "nobody need know what else is on this disk"


def test_what_a_killed_run_left_in_any_of_the_folders_goes_though_nothing_is_written_there(folder, named):
    named(sort="copy")
    left = [place / ".0123456789abcdef.partial" for place in (folder / "out").rglob("*/")]
    for file in left:
        file.touch()
        os.utime(file, (0, 0))
    sweep.cache_clear()  # as in another process
    named(sort="copy")
    assert len(left) > 4
    assert not [file for file in left if file.exists()]


def test_one_run_at_a_time_writes_into_a_folder(folder, named, model, without_paths):
    """All files in it are of one run: they would contradict each other where two write in turns."""
    named()
    before = listing(folder / "out")
    given = {"model": model}
    again = {
        "label": lambda: named(settings={"n_iter": 1}),
        "suggest": lambda: suggest_folder(folder / "images", folder / "out", **given),
        "check": lambda: check_folder([folder / "support"], folder / "out", **given),
    }
    with locked(folder / "out") as held:
        assert held
        for verb, run in again.items():
            with pytest.raises(UserError, match=r"another run is writing into .*run the same command again"):
                run()
            assert listing(folder / "out") == before, verb
    again["label"]()
    assert json.loads((folder / "out" / "labels.json").read_text())["method"]["settings"]["n_iter"] == 1


def test_the_json_is_the_contract(folder, named, model):
    result = named()
    assert json.loads((folder / "out" / "labels.json").read_text()) == result
    assert result["schema"] == "protoadapt-labels/1"
    assert result["model"]["name"] == str(model)
    assert result["method"]["name"] == "bapa"
    assert "device" not in result["method"]["settings"]
    assert (result["unnamed"], result["skipped"]) == ([], [])
    paths = result["paths"]
    assert np.array(paths["steps"]).shape == (3, 9, 2)
    assert np.array(paths["rows"]).shape == (24, 2)
    assert sum(paths["support"]) == 6
    assert sorted(paths["row_label"]) == [0] * 8 + [1] * 8 + [2] * 8
    assert "<html" in labels_page(result)


def test_pictures_that_are_all_the_same_have_no_paths(model):
    """scikit-learn's t-SNE ends the process on such rows."""
    rows = np.ones((24, 8), np.float32)
    codes = np.array([0, 1] + [-1] * 22)
    about = {"model": "m", "weights": "0" * 16, "size": 8, "mean": [0.5] * 3, "std": [0.5] * 3, "trained_on": ""}
    for given in (rows, rows + 1e-8 * np.random.default_rng(0).random((24, 8)).astype(np.float32)):
        task = Collection.of_rows("t", list("abcdefghijklmnopqrstuvwx"), np.arange(24), given, codes, ["a", "b"], about)
        result = task.name(make_estimator("bapa", {})).result
        assert result["paths"] is None
        assert len(result["pictures"]) == 24
