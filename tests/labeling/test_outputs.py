"""What the report gets: the contract of labels.json, thumbnails, links and paths."""

import json
import re
from urllib.parse import unquote

import numpy as np

from protoadapt.labeling import outputs, pipeline
from protoadapt.labeling.classifier import make_estimator
from protoadapt.report.label_page import labels_page


def test_more_pictures_than_thumbnails():
    from protoadapt.labeling.outputs import thumbnail_sample

    rows = [{"confidence": i / 500, "label": "ab"[i % 2] if i < 480 else "c"} for i in range(500)]
    chosen = thumbnail_sample(rows, most=100)
    assert len(chosen) <= 100
    assert set(range(50)) <= set(chosen)  # the least certain
    assert {rows[i]["label"] for i in chosen} == {"a", "b", "c"}
    assert max(chosen) > 450
    assert thumbnail_sample(rows[:80], most=100) == list(range(80))


def test_what_is_looked_at_first_is_shown_large_and_the_report_stays_as_small():
    rows = [{"confidence": i / 5000, "margin": 0.1, "file": f"{i:04d}", "label": "ab"[i % 2]} for i in range(5000)]
    rows = [row | {"unknown": i % 10 == 9, "support": i % 10 == 8} for i, row in enumerate(rows)]
    pictured = outputs.report_images(rows, ["0700", "0003", "0008", "0009"])
    large = [rows[i] for i, key, side in pictured if (key, side) == ("preview", 256)]
    assert [row["file"] for row in large if not row["unknown"]] == ["0003", "0700"], "to label next, but no example"
    assert len(large) == 3 + outputs.LARGE_UNKNOWN
    others = [row["confidence"] for row in large if row["unknown"] and row["file"] != "0009"]
    assert min(others) > 0.59, "the surest: they stand first"
    small = [i for i, key, side in pictured if (key, side) == ("thumb", 96)]
    assert len(pictured) == len(large) + len(small)
    assert len(small) + outputs.WEIGHT * len(large) <= outputs.THUMBS


def test_the_report_leads_to_the_pictures(folder, named):
    result = named(out="results/named")
    assert result["folder"] == "../../images"
    linked = re.findall(r'<a href="([^#"]*)"', labels_page(result))
    assert len(linked) >= 24
    assert all((folder / "results" / "named" / unquote(way)).is_file() for way in linked)
    assert {way.split("/")[2] for way in linked} == {"images", "support"}
    assert str(folder) not in labels_page(result)
    assert outputs.link_between(folder, "/pictures") is None, "nobody need know what else is on this disk"


def test_the_json_is_the_contract(folder, named, model):
    result = named()
    assert json.loads((folder / "out" / "labels.json").read_text()) == result
    assert result["schema"] == "protoadapt-labels/1"
    assert result["model"]["name"] == str(model)
    assert result["method"]["name"] == "bapa"
    assert "device" not in result["method"]["settings"]
    assert (result["calibrated"], result["threshold"], result["skipped"]) == (False, None, [])
    assert all(picture["thumb"].startswith("data:image/jpeg;base64,") for picture in result["pictures"])
    paths = result["paths"]
    assert np.array(paths["steps"]).shape == (3, 21, 2)
    assert np.array(paths["rows"]).shape == (24, 2)
    assert sum(paths["support"]) == 6
    assert sorted(paths["row_label"]) == [0] * 8 + [1] * 8 + [2] * 8
    assert "<html" in labels_page(result)


def test_pictures_that_are_all_the_same_have_no_paths(model):
    """scikit-learn's t-SNE ends the process on such rows."""
    rows = np.ones((24, 8), np.float32)
    codes = np.array([0, 1] + [-1] * 22)
    about = {"model": "m", "weights": "0" * 16, "size": 8, "mean": [0.5] * 3, "std": [0.5] * 3, "trained_on": ""}
    about["calibration"] = None
    for given in (rows, rows + 1e-8 * np.random.default_rng(0).random((24, 8)).astype(np.float32)):
        task = pipeline.in_memory("t", list("abcdefghijklmnopqrstuvwx"), np.arange(24), given, codes, ["a", "b"], about)
        result = pipeline.name_pictures(task, make_estimator("bapa", {})).result
        assert result["paths"] is None
        assert len(result["pictures"]) == 24
