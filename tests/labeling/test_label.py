"""`label` and `predict` from end to end, on pictures whose names tell the truth."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from helpers.label_files import listing, read_table, truth, write_table
from PIL import Image

from protoadapt.core.errors import UserError
from protoadapt.core.methods import unnamed
from protoadapt.labeling import load_classifier, predict, save_classifier
from protoadapt.report.label_page import labels_page
from protoadapt.vision import networks
from protoadapt.vision.networks import timm_features

pytestmark = pytest.mark.usefixtures("without_paths")


@pytest.mark.parametrize("name", ["timm:hf-hub:somebody/network", "timm:resnet18"])
def test_no_file_chooses_a_network_that_is_downloaded(named, folder, name, monkeypatch):
    named()
    path = folder / "out" / "classifier.safetensors"
    classifier = load_classifier(path)
    save_classifier(path, replace(classifier, model=classifier.model | {"name": name}))
    monkeypatch.setattr(timm_features, "load_timm", lambda source: pytest.fail(f"{source} was loaded"))
    with pytest.raises(UserError, match=f"the weights of {name!r} are not here: `protoadapt models --get"):
        predict(path, [folder / "images"])


def test_every_picture_is_named_rightly(folder, named):
    result = named()
    rows = read_table(folder / "out" / "labels.csv")
    assert " ".join(rows[0]) == "file label confidence runner_up margin density unknown group guess"
    mine = [row for row in rows if not row["file"].startswith("..")]
    assert len(mine) == 18
    assert all(row["label"] == truth(row["file"]) for row in mine)
    assert all(row["label"] != row["runner_up"] and row["unknown"] == "no" for row in mine)
    assert all(0 <= float(row["margin"]) <= float(row["confidence"]) <= 1 for row in mine)
    assert [row["label"] for row in rows if row["file"].startswith("../support/")] == [
        *["blue"] * 2, *["green"] * 2, *["red"] * 2,
    ]  # fmt: skip
    assert result["classes"] == [
        {"name": name, "support": 2, "found": 6, "unknown": 0} for name in ("blue", "green", "red")
    ]


@pytest.mark.parametrize("method", ["bapa", "cipa", "protonet"])
def test_predict_says_the_same_of_the_same_pictures(folder, named, method):
    result = named(method=method)
    again = predict(folder / "out" / "classifier.safetensors", [folder / "images"])
    labels = {os.path.relpath(one["file"], folder / "images"): one for one in again["pictures"]}
    for picture in result["pictures"]:
        if not picture["support"]:
            assert labels[picture["file"]]["label"] == picture["label"]
            assert labels[picture["file"]]["confidence"] == pytest.approx(picture["confidence"], abs=1e-4)
    (one,) = predict(folder / "out" / "classifier.safetensors", [folder / "images" / "day 0" / "red-0.png"])["pictures"]
    assert one["label"] == "red"


LOADED = """
import sys
from protoadapt.cli.verbs import app
app(standalone_mode=False)
slow = {"numba", "onnx", "pandas", "scipy", "sklearn", "torch"} & set(sys.modules)
print("loaded", *sorted(slow))
"""


def test_predict_loads_nothing_slow(folder, named, model, monkeypatch):
    """Loading torch or scikit-learn takes longer than naming a hundred pictures. The answers are those of torch."""
    named()
    classifier, images = folder / "out" / "classifier.safetensors", folder / "images"
    words = ["predict", classifier, images, "--device", "auto"]
    done = subprocess.run([sys.executable, "-c", LOADED, *words], capture_output=True, text=True)
    *answers, loaded = done.stdout.splitlines()
    assert loaded == "loaded", done.stderr
    monkeypatch.setattr(networks, "load_for_files", partial(networks.load, engine="torch"))
    by_torch = predict(classifier, [images])
    for line, other in zip(answers, by_torch["pictures"], strict=True):
        name, percent = re.fullmatch(r"(.*) \((\d+)%.*\)", line).groups()
        assert name == f"{other['file']}: {other['label']}"
        assert int(percent) / 100 == pytest.approx(other["confidence"], abs=0.006)


def test_only_out_is_written(folder, named):
    before = listing(folder)
    named(sort="copy")
    after = listing(folder)
    new = after.keys() - before.keys()
    assert all(name.startswith("out/") for name in new)
    assert all(after[name] == content for name, content in before.items())
    visible = {name for name in new if "/." not in name and "/sorted/" not in name}
    assert visible == {"out/labels.csv", "out/labels.json", "out/classifier.safetensors"}
    assert not [name for name in new if "partial" in name]


def test_output_inside_the_pictures_is_not_labelled(folder, named):
    first = named(out="images/out", sort="copy")
    again = named(out="images/out", sort="copy")
    other = named(out="images/other")
    for result in (again, other):
        assert [picture["file"] for picture in result["pictures"]] == [picture["file"] for picture in first["pictures"]]
        assert not result["skipped"]
    shutil.copy(folder / "support" / "red" / "0.png", folder / "images" / "out" / "mine.png")
    assert named(out="images/other")["skipped"] == [
        {"file": "out", "reason": "pictures in a folder of results are left out"}
    ]


def test_a_picture_in_both_counts_once_with_the_label_it_was_given(folder, named):
    shutil.copy(folder / "support" / "red" / "0.png", folder / "images" / "same.png")
    shutil.copy(folder / "support" / "red" / "0.png", folder / "images" / "once more.png")
    shutil.copy(folder / "support" / "red" / "0.png", folder / "support" / "red" / "twice.png")
    shutil.copy(folder / "images" / "day 0" / "blue-0.png", folder / "images" / "copy.png")
    result = named()
    rows = {picture["file"]: picture for picture in result["pictures"]}
    assert len(rows) == 18 + 3 + 5  # files, and shots that are in no such file
    for name in ("same.png", "once more.png"):
        assert (rows[name]["support"], rows[name]["label"], rows[name]["confidence"]) == (True, "red", 1.0)
    assert rows["copy.png"]["label"] == rows["day 0/blue-0.png"]["label"] == "blue"
    assert [(one["support"], one["found"]) for one in result["classes"]] == [(2, 7), (2, 6), (2, 6)]


def test_broken_pictures_are_listed_and_skipped(folder, named):
    (folder / "images" / "broken.jpg").write_bytes(b"\xff\xd8\xff\xe0 no more")
    (folder / "images" / "text.png").write_text("hello")
    (folder / "support" / "red" / "0.png").write_bytes(b"")
    (folder / "images" / "disk").symlink_to("/")
    result = named()
    assert {one["file"] for one in result["skipped"]} == {"broken.jpg", "text.png", "../support/red/0.png", "disk"}
    assert all(one["reason"] for one in result["skipped"])
    assert {one["name"]: one["support"] for one in result["classes"]} == {"red": 1, "green": 2, "blue": 2}
    assert all(picture["label"] == truth(picture["file"]) for picture in result["pictures"] if not picture["support"])


def test_strange_names_survive(folder, named, paint):
    strange = ["two\nlines.png", "=1+1.png", "-rf.png", ' spaced , "quoted".png', "ж猫.png", "back\\slash.png"]
    for i, name in enumerate(strange):
        paint(folder / "images" / name, "green", 50 + i)
    raw = os.fsdecode(b"caf\xe9.png")
    paint(folder / "images" / "x.png", "green", 99).rename(folder / "images" / raw)
    paint(folder / "support" / "=cmd()" / "1.png", "red", 77)
    result = named(sort="copy")
    rows = {row["file"]: row for row in read_table(folder / "out" / "labels.csv")}
    expected = ["two\nlines.png", "./=1+1.png", "./-rf.png", ' spaced , "quoted".png', "ж猫.png", r"back\\slash.png"]
    assert {*expected, r"caf\xe9.png"} <= rows.keys()
    assert {rows[name]["label"] for name in expected} == {"green"}
    assert (folder / "out" / "sorted" / "green" / raw).is_file()
    assert "'=cmd()" in {row["label"] for row in rows.values()}
    checked = [{"file": name, "label": row["label"]} for name, row in rows.items()]
    write_table(folder / "checked.csv", checked)  # all of it as truth: every name leads back to its picture
    back = named(support=("checked.csv",), out="again")
    assert all(picture["support"] for picture in back["pictures"])
    assert {p["file"]: p["label"] for p in back["pictures"]} == {p["file"]: p["label"] for p in result["pictures"]}


def test_a_kind_without_a_name_is_a_group_and_predict_agrees(folder, named):
    rng = np.random.default_rng(0)
    for i in range(8):  # more of all three, so that there are rows enough
        for name, color in (("red", (200, 0, 0)), ("green", (0, 200, 0)), ("blue", (0, 0, 200))):
            pixels = np.clip(np.array(color) + rng.integers(-40, 40, (26, 30, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / "images" / f"{name}-more-{i}.png")
    noise = {f"noise-{i}.png" for i in range(24)}
    for name in noise:  # neither red nor green nor blue
        Image.fromarray(rng.integers(0, 256, (26, 30, 3), dtype=np.uint8)).save(folder / "images" / name)
    result = named(sort="copy", explain=folder / "images" / "noise-3.png")
    (group,) = result["unnamed"]
    assert group == {"name": "unnamed-1", "found": 24}
    of_file = {picture["file"]: picture for picture in result["pictures"]}
    assert {name for name, one in of_file.items() if one["group"]} == noise
    assert all(of_file[name]["unknown"] for name in noise)
    rows = read_table(folder / "out" / "labels.csv")
    assert {row["file"] for row in rows if row["group"] == "unnamed-1" and row["unknown"] == "yes"} == noise
    assert {path.name for path in (folder / "out" / "sorted" / "unnamed-1").iterdir()} == noise
    page = labels_page(result)
    assert "24 pictures look like a kind without a name (unnamed-1): name it." in page
    assert "resembles none of the classes is marked unknown" in page
    why = result["explained"]
    assert (why["file"], why["group"], len(why["nearest"])) == ("noise-3.png", "unnamed-1", 5)
    assert sorted(one["resemblance"] for one in why["nearest"]) == [o["resemblance"] for o in why["nearest"]][::-1]
    with pytest.raises(UserError, match=r"not-there.png' is none of the pictures in"):
        named(explain=folder / "images" / "not-there.png")
    again = predict(folder / "out" / "classifier.safetensors", [folder / "images"], out=folder / "p", sort="link")
    for picture in again["pictures"]:
        assert (picture["unknown"], picture["group"]) == tuple(
            of_file[picture["file"]][key] for key in ("unknown", "group")
        )
        assert picture["confidence"] == pytest.approx(of_file[picture["file"]]["confidence"], abs=1e-4)
    named(sort="copy")  # a folder that got a name is a class; one that has none is left out
    sorted_here = folder / "out" / "sorted"
    back = named(support=("out/sorted",), out="again")
    assert [one["name"] for one in back["classes"]] == ["blue", "green", "red"]
    (sorted_here / "unnamed-1").rename(sorted_here / "noise")
    assert "noise" in [one["name"] for one in named(support=("out/sorted",), out="again")["classes"]]


def test_how_good_the_names_are_is_said(folder, named, monkeypatch):
    assert (named()["estimate"], named()["threshold"]) == (None, None), "too few pictures to say"
    monkeypatch.setattr(unnamed, "LEAST_ROWS", 8)
    result = named()
    estimate = result["estimate"]
    assert 0 <= estimate["low"] < estimate["right"] <= estimate["high"] <= 100
    sure = [one["confidence"] for one in result["pictures"] if not one["support"] and not one["unknown"]]
    assert estimate["right"] == pytest.approx(100 * np.mean(sure), abs=0.06)
    assert f"About {estimate['right']:.0f} of 100 names are right" in labels_page(result)
    plain = named(method="cipa")
    assert (plain["estimate"], plain["threshold"], plain["temperature"]) == (None, None, 1.0)
    assert "for that the method must be bapa" in labels_page(plain)


def test_predict_wants_the_same_weights(folder, named, model, tmp_path):
    named()
    classifier, picture = folder / "out" / "classifier.safetensors", folder / "images" / "day 0" / "red-0.png"
    fitted = load_classifier(classifier)
    save_classifier(folder / "other.safetensors", replace(fitted, model=fitted.model | {"weights": "0" * 16}))
    with pytest.raises(UserError, match="has other weights"):
        predict(folder / "other.safetensors", [picture])
    moved = shutil.copy(model, tmp_path / "moved.safetensors")
    assert predict(classifier, [picture], model=moved)["pictures"][0]["label"] == "red"
    for given, words in (("nowhere.png", "no picture can be read"), ("out", "there are no pictures in")):
        with pytest.raises(UserError, match=words):
            predict(classifier, [folder / given])


def test_bad_input_is_a_sentence_and_leaves_nothing(folder, named):
    (folder / "empty").mkdir()
    (folder / "file").write_text("")
    (folder / "links").mkdir()
    (folder / "links" / "support").symlink_to(folder / "support")
    for options, words in (
        ({"images": "empty"}, "there are no pictures in"),
        ({"images": "nowhere"}, "there is no folder"),
        ({"support": ("nowhere",)}, "there is no"),
        ({"support": ("empty",)}, "gives no labels"),
        ({"out": "file"}, "is a file: give a folder"),
        ({"out": "images"}, "a folder of their own"),
        ({"out": "support/red/out"}, "--out is .*, inside .*, which is also read: give the results a folder of their"),
        ({"images": "links"}, r"no pictures in .*links' \('.*support': a link to a folder, which is not followed"),
        ({"out": "support", "sort": "copy"}, "--out is .*, which is also read: give the results a folder of"),
        ({"method": "magic"}, "there is no method"),
        ({"sort": "move"}, "choose copy or link"),
    ):
        with pytest.raises(UserError, match=words):
            named(**options)
    assert not (folder / "out").exists()


def test_labels_of_features_are_neither_lost_nor_left_beside_others(folder, named):
    name = "labels.parquet"
    (folder / "out").mkdir()
    (folder / "out" / "labels-of-mine.parquet").touch()
    named()
    before = listing(folder / "out")
    (folder / "out" / name).touch()
    with pytest.raises(UserError, match=f"{name}' holds labels of label --features: remove it, or give another --out"):
        named(method="protonet")
    assert listing(folder / "out") == before | {name: b""}


def test_pictures_that_cannot_be_read(folder, named):
    """A class without a readable example would be missing from the answers without a word."""
    for place in ("images", "support/red"):
        for path in (folder / place).rglob("*.*"):
            path.write_text("no picture")
    with pytest.raises(UserError, match="no picture can be read"):
        named()
    shutil.copy(folder / "support" / "green" / "0.png", folder / "images" / "a.png")
    with pytest.raises(UserError, match=r"no picture of the class 'red' can be read, such as .*red/0\.png"):
        named()
    assert not (folder / "out" / "labels.csv").exists()


def test_no_unlabelled_pictures(folder, named):
    result = named(images="support")
    assert [one["found"] for one in result["classes"]] == [0, 0, 0]
    assert result["next"] == []
    assert all(row["guess"].startswith("(folder)") for row in read_table(folder / "out" / "labels.csv"))
