"""`label` and `predict` from end to end, on pictures whose names tell the truth."""

import csv
import json
import os
import re
import shutil
from urllib.parse import unquote

import numpy as np
import pytest
from PIL import Image

from protoadapt.core.errors import UserError
from protoadapt.core.estimators import BAPAClassifier
from protoadapt.labeling import label, outputs, pipeline, predict
from protoadapt.labeling.classifier import make_estimator
from protoadapt.report.html import labels_page
from protoadapt.report.label_page import FIRST
from protoadapt.vision import networks


@pytest.fixture
def named(folder, model):
    """label(support, images, out) with the folder's own places unless result."""

    def run(support=("support",), images="images", out="out", **options):
        return label([folder / one for one in support], folder / images, folder / out, model=model, **options)

    return run


def table(folder, out="out"):
    with open(folder / out / "labels.csv", newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def truth(name):
    return os.path.basename(name).split("-")[0]


def listing(folder):
    """Every file below a folder, with its content, links as where they lead."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_symlink() or path.is_file()]
    return {
        str(path.relative_to(folder)): os.readlink(path) if path.is_symlink() else path.read_bytes() for path in files
    }


def given_rows(rows):
    return {row["file"] for row in rows if row["guess"] != row["label"]}


def test_every_picture_is_named_rightly(folder, named):
    result = named()
    rows = table(folder)
    assert list(rows[0]) == ["file", "label", "confidence", "runner-up", "margin", "unknown", "guess"]
    mine = [row for row in rows if not row["file"].startswith("..")]
    assert len(mine) == 18
    assert all(row["label"] == truth(row["file"]) for row in mine)
    assert all(row["label"] != row["runner-up"] and row["unknown"] == "uncalibrated" for row in mine)
    assert all(0 <= float(row["margin"]) <= float(row["confidence"]) <= 1 for row in mine)
    assert [row["label"] for row in rows if row["file"].startswith("../support/")] == [
        *["blue"] * 2, *["green"] * 2, *["red"] * 2,
    ]  # fmt: skip
    assert result["classes"] == [
        {"name": name, "support": 2, "found": 6, "unknown": 0} for name in ("blue", "green", "red")
    ]


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


def test_a_cache_elsewhere(folder, named):
    named(cache=folder / "kept")
    assert not (folder / "out" / ".features").exists()
    assert list((folder / "kept").glob("*/*.safetensors"))
    named(cache=folder / "images" / "kept")  # its thumbnails are no pictures
    assert len(named(cache=folder / "images" / "kept")["pictures"]) == 24


def test_output_inside_the_pictures_is_not_labelled(folder, named):
    first = named(out="images/out", sort="copy")
    again = named(out="images/out", sort="copy")
    other = named(out="images/other")
    for result in (again, other):
        assert [picture["file"] for picture in result["pictures"]] == [picture["file"] for picture in first["pictures"]]


def test_a_correction_feeds_back(folder, named):
    named()
    rows = table(folder)
    assert [row["guess"] for row in rows if row["file"].startswith("..")] == [
        f"(folder) {colour}" for colour in ("blue", "blue", "green", "green", "red", "red")
    ]
    wrong = next(row for row in rows if truth(row["file"]) == "red")
    wrong["label"] = "crimson"  # a class that nobody had thought of
    with open(folder / "out" / "labels.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    with pytest.raises(UserError, match="holds 1 correction that would be lost"):
        named()  # the first command once more, from the shell's history
    assert table(folder) == rows  # nothing is lost
    result = named(support=("out/labels.csv",))
    counts = {one["name"]: one["support"] for one in result["classes"]}
    assert counts == {"blue": 2, "green": 2, "red": 2, "crimson": 1}  # guesses are guessed again
    assert given_rows(table(folder)) == {row["file"] for row in rows if row["guess"] != row["label"]}
    with pytest.raises(UserError, match="would be lost"):
        named()
    assert {one["name"] for one in named(support=("support", "out/labels.csv"))["classes"]} == set(counts)
    assert {row["guess"] for row in table(folder) if row["file"] == wrong["file"]} == {"(table)"}
    (folder / "images" / wrong["file"]).unlink()
    with pytest.raises(UserError, match="holds 1 correction that would be lost"):  # it may be back tomorrow
        named()


def correct(folder, file, label):
    path = folder / "out" / "labels.csv"
    rows = [row | {"label": label} if row["file"] == file else row for row in table(folder)]
    with open(path, "w", newline="") as text:
        writer = csv.DictWriter(text, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def test_corrections_survive_a_run_on_other_pictures(folder, named, paint):
    named()
    for colour in ("red", "blue"):
        paint(folder / "others" / f"{colour}.png", colour, 70)
    correct(folder, "day 0/blue-0.png", "red")
    with pytest.raises(UserError, match=r"holds 1 correction that would be lost, such as .*blue-0"):
        named(images="others")


@pytest.mark.parametrize("moment", ["pictures embedded", "thumbnails"])
@pytest.mark.parametrize(("file", "label"), [("day 0/green-0.png", "red"), ("day 0/blue-0.png", "")])
def test_what_is_edited_while_it_runs_is_not_lost(folder, named, moment, file, label):
    """A new correction, or an earlier one that is taken back; and no other result is replaced either."""
    named()
    correct(folder, "day 0/blue-0.png", "red")
    edited = []

    def edit(what, done, total):
        if what == moment and not edited:
            correct(folder, file, label)
            edited.append(listing(folder / "out"))

    with pytest.raises(UserError, match=r"was changed while this ran, and is left as it is: run"):
        named(support=("support", "out/labels.csv"), method="protonet", on_progress=edit)
    after = listing(folder / "out")
    assert {name: after[name] for name in edited[0]} == edited[0]
    assert not [name for name in after if "partial" in name]


def test_a_changed_label_of_a_class_folder_is_a_correction(folder, named):
    named()
    correct(folder, "../support/blue/0.png", "red")
    with pytest.raises(UserError, match=r"holds 1 correction that would be lost, such as .*blue/0\.png"):
        named()
    with pytest.raises(UserError, match=r"blue/0\.png' is labelled 'blue' .*, the same picture, 'red' .*: keep one"):
        named(support=("support", "out/labels.csv"))
    (folder / "support" / "blue" / "0.png").rename(folder / "support" / "red" / "9.png")
    with pytest.raises(UserError, match="would be lost"):  # its row names a file that has gone
        named()
    (folder / "out" / "labels.csv").unlink()
    assert {one["name"]: one["support"] for one in named()["classes"]} == {"blue": 1, "green": 2, "red": 3}


def test_unknown_is_a_correction_that_is_kept(folder, named):
    named()
    correct(folder, "day 0/blue-0.png", "Unknown")
    with pytest.raises(UserError, match=r"holds 1 correction that would be lost, such as .*blue-0"):
        named()
    for _ in range(2):
        result = named(support=("support", "out/labels.csv"), sort="copy")
        row = next(row for row in table(folder) if row["file"] == "day 0/blue-0.png")
        assert (row["label"], row["unknown"], row["guess"]) == ("unknown", "yes", "blue")
        assert [one["support"] for one in result["classes"]] == [2, 2, 2]
        assert (folder / "out" / "sorted" / "unknown" / "day 0" / "blue-0.png").is_file()
    correct(folder, "../support/blue/0.png", "unknown")
    with pytest.raises(
        UserError, match=r"blue/0\.png' is labelled 'blue' .*, the same picture, 'unknown' .*: keep one"
    ):
        named(support=("support", "out/labels.csv"))


def test_a_correction_is_not_applied_to_another_picture_beside_the_table(folder, named):
    for path in (folder / "images").rglob("*-*.*"):
        path.rename(folder / "images" / path.name)
    named(out="out")
    correct(folder, "blue-0.png", "red")
    shutil.copy(folder / "images" / "green-0.png", folder / "out" / "blue-0.png")
    with pytest.raises(UserError, match=r"line .* names 'blue-0.png', which is .*images.* and, another file, .*out/"):
        named(support=("support", "out/labels.csv"))
    shutil.copy(folder / "images" / "blue-0.png", folder / "out" / "blue-0.png")
    result = named(support=("support", "out/labels.csv"))
    assert [p["label"] for p in result["pictures"] if p["support"] and p["file"] == "blue-0.png"] == ["red"]
    assert not any("out/blue-0.png" in picture["file"] for picture in result["pictures"])


def test_a_class_folder_whose_name_ends_in_a_space_comes_back(folder, named):
    (folder / "support" / "red").rename(folder / "support" / "red ")
    for support in (("support",), ("support", "out/labels.csv")):
        assert [one["name"] for one in named(support=support)["classes"]] == ["blue", "green", "red"]


def test_a_guess_is_confirmed_by_emptying_it_and_a_shot_taken_back_by_removing_it(folder, named):
    named()
    text = (folder / "out" / "labels.csv").read_text().replace("uncalibrated,red", "uncalibrated,")
    (folder / "out" / "labels.csv").write_text(text)
    with pytest.raises(UserError, match="holds 6 corrections"):
        named()
    result = named(support=("support", "out/labels.csv"))
    assert {one["name"]: one["support"] for one in result["classes"]} == {"blue": 2, "green": 2, "red": 8}
    (folder / "out" / "labels.csv").unlink()
    named()
    (folder / "support" / "red" / "0.png").unlink()
    assert [one["support"] for one in named()["classes"]] == [2, 2, 1]


def test_a_table_of_ones_own_can_be_used_again_and_again(folder, named):
    lines = [f"day 0/{colour}-0.png,{colour}" for colour in ("red", "green", "blue")]
    (folder / "mine.csv").write_text("\n".join(["file,label", *lines]))
    for _ in range(2):
        result = named(support=("mine.csv",))
        assert [one["support"] for one in result["classes"]] == [1, 1, 1]
        assert len(result["pictures"]) == 18
        assert all(picture["label"] == truth(picture["file"]) for picture in result["pictures"])


def test_a_picture_in_both_counts_once_with_the_label_it_was_given(folder, named, monkeypatch):
    shutil.copy(folder / "support" / "red" / "0.png", folder / "images" / "same.png")
    shutil.copy(folder / "support" / "red" / "0.png", folder / "images" / "once more.png")
    shutil.copy(folder / "support" / "red" / "0.png", folder / "support" / "red" / "twice.png")
    shutil.copy(folder / "images" / "day 0" / "blue-0.png", folder / "images" / "copy.png")
    fits = []
    real = BAPAClassifier.fit_rows

    def spied(self, support, labels, source):
        fits.append((len(support), len(source.index)))
        return real(self, support, labels, source)

    monkeypatch.setattr(BAPAClassifier, "fit_rows", spied)
    result = named()
    assert fits == [(6, 18)]  # contents
    rows = {picture["file"]: picture for picture in result["pictures"]}
    assert len(rows) == 18 + 3 + 5  # files, and shots that are in no such file
    for name in ("same.png", "once more.png"):
        assert (rows[name]["support"], rows[name]["label"], rows[name]["confidence"]) == (True, "red", 1.0)
    assert rows["copy.png"]["label"] == rows["day 0/blue-0.png"]["label"] == "blue"
    assert {one["name"]: (one["support"], one["found"]) for one in result["classes"]} == {
        "red": (2, 6),
        "green": (2, 6),
        "blue": (2, 7),
    }


def test_one_picture_cannot_be_two_classes(folder, named):
    shutil.copy(folder / "support" / "red" / "0.png", folder / "support" / "blue" / "9.png")
    with pytest.raises(UserError, match=r"blue/9\.png' is labelled 'blue' .*the same picture, 'red'"):
        named()
    assert not (folder / "out" / "labels.csv").exists()


def test_support_may_lie_among_the_pictures(folder, named):
    shutil.move(folder / "support", folder / "images" / "known")
    result = named(support=("images/known",))
    assert len(result["pictures"]) == 24
    assert sum(picture["support"] for picture in result["pictures"]) == 6


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
    rows = {row["file"]: row for row in table(folder)}
    expected = ["two\nlines.png", "./=1+1.png", "./-rf.png", ' spaced , "quoted".png', "ж猫.png", r"back\\slash.png"]
    assert {*expected, r"caf\xe9.png"} <= rows.keys()
    assert {rows[name]["label"] for name in expected} == {"green"}
    assert (folder / "out" / "sorted" / "green" / raw).is_file()
    assert "'=cmd()" in {row["label"] for row in rows.values()}
    table_file = folder / "out" / "labels.csv"  # all of it as truth: every name leads back to its picture
    with open(table_file, newline="") as file:
        lines = [row[:2] for row in csv.reader(file)]
    with open(folder / "checked.csv", "w", newline="") as file:
        csv.writer(file).writerows(lines)
    back = named(support=("checked.csv",), out="again")
    assert all(picture["support"] for picture in back["pictures"])
    assert {p["file"]: p["label"] for p in back["pictures"]} == {p["file"]: p["label"] for p in result["pictures"]}


def test_sorted_folders_follow_the_labels(folder, named):
    place = folder / "out" / "sorted"
    named(sort="copy")
    assert len(list(place.rglob("*.[pj][np]g"))) == 18
    assert (place / "red" / "day 0" / "red-0.png").read_bytes() == (
        folder / "images" / "day 0" / "red-0.png"
    ).read_bytes()
    (place / "red" / "mine.txt").write_text("a note")
    (place / "red" / "day 1" / "red-3.png").write_bytes(b"edited")
    first = listing(place)
    assert named(sort="copy")["left_alone"] == 1
    assert listing(place) == first
    (folder / "images" / "day 0" / "blue-0.png").unlink()
    result = named(sort="link")
    assert result["left_alone"] == 1
    after = listing(place)
    assert (place / "red" / "mine.txt").read_text() == "a note"
    assert (place / "red" / "day 1" / "red-3.png").read_bytes() == b"edited"
    assert "blue/day 0/blue-0.png" not in after
    link = place / "red" / "day 0" / "red-0.png"
    assert link.is_symlink()
    assert not os.path.isabs(os.readlink(link))
    assert link.samefile(folder / "images" / "day 0" / "red-0.png")


def test_sorted_folders_are_support_too(folder, named):
    """Dragging a picture into another class folder is a correction."""
    named(sort="link")
    place = folder / "out" / "sorted"
    os.makedirs(place / "crimson")
    (place / "red" / "day 0" / "red-0.png").unlink()
    (place / "crimson" / "a.png").symlink_to(folder / "images" / "day 0" / "red-0.png")
    result = named(support=("out/sorted",), out="second")
    rows = {picture["file"]: picture for picture in result["pictures"]}
    assert rows["day 0/red-0.png"]["label"] == "crimson"
    assert all(row["support"] for row in rows.values())
    with pytest.raises(UserError, match="also read: leave --sort out"):
        named(support=("out/sorted",), sort="copy")


def test_sorting_never_leaves_its_folder(folder, named):
    (folder / "elsewhere").mkdir()
    (folder / "out" / "sorted").mkdir(parents=True)
    (folder / "out" / "sorted" / "red").symlink_to(folder / "elsewhere")
    with pytest.raises(UserError, match="by a link"):
        named(sort="copy")
    assert not list((folder / "elsewhere").iterdir())
    shutil.rmtree(folder / "out" / "sorted")
    (folder / "out" / "sorted").symlink_to(folder / "elsewhere")
    with pytest.raises(UserError, match="by a link"):
        named(sort="copy")
    assert not list((folder / "elsewhere").iterdir())
    (folder / "out" / "sorted").unlink()
    (folder / "out" / "sorted").mkdir()
    victim = folder / "images" / "day 0" / "red-0.png"
    about = victim.stat()
    lie = {"../../images/day 0/red-0.png": f"{about.st_size} {about.st_mtime_ns}"}
    (folder / "out" / "sorted" / ".sorted.json").write_text(json.dumps(lie))
    named(sort="copy")
    assert victim.exists()


def test_classes_with_dangerous_names_stay_inside(folder, named):
    lines = ["file,label", "day 0/red-0.png,../../escaped", "day 0/blue-0.png,/absolute/x", "day 0/green-0.png,."]
    (folder / "t.csv").write_text("\n".join(lines))
    before = {path for path in folder.rglob("*") if "out" not in path.relative_to(folder).parts}
    named(support=("t.csv",), sort="copy")
    assert {path for path in folder.rglob("*") if "out" not in path.relative_to(folder).parts} == before
    assert {path.name for path in (folder / "out" / "sorted").iterdir()} == {
        ".sorted.json",
        "%2E.%2F..%2Fescaped",
        "%2Fabsolute%2Fx",
        "%2E",
    }


@pytest.fixture
def calibrated(model, monkeypatch):
    """The calibration of the model from now on, which a test may change."""
    real = networks.load
    result = {"temperature": 0.5, "method": "bapa"}
    result["familiarity"] = {"way": [2, 4, 8], "threshold": [0.0, 0.4, 0.9]}
    monkeypatch.setattr(networks, "load", lambda *a: (real(*a)[0], real(*a)[1] | {"calibration": result}))
    return result


def test_confidence_comes_with_calibration(folder, named, model, request):
    """softmax(logits / T): at T = ½, p²/Σp² of the two likeliest at least."""
    plain = named(out="plain")
    request.getfixturevalue("calibrated")
    sharp = named()
    assert (plain["calibrated"], sharp["calibrated"], sharp["temperature"]) == (False, True, 0.5)
    for warm, cold in zip(plain["pictures"], sharp["pictures"]):
        assert warm["label"] == cold["label"]
        if not cold["support"]:
            p, q = warm["confidence"], warm["confidence"] - warm["margin"]
            rest = 1 - p - q  # of the third class
            assert cold["confidence"] == pytest.approx(p**2 / (p**2 + q**2 + rest**2), abs=1e-4)
    for options in ({"method": "cipa"}, {"settings": {"lam": 5}}):  # it was learned with another
        assert not named(out="other", **options)["calibrated"]


def test_pictures_unlike_all_examples_are_unknown(folder, named, model, calibrated):
    """By familiarity, its threshold between those of the numbers of classes measured; predict agrees."""
    rng = np.random.default_rng(0)
    noise = {f"noise-{i}.png" for i in range(6)}
    for name in noise:  # neither red nor green nor blue
        Image.fromarray(rng.integers(0, 256, (26, 30, 3), dtype=np.uint8)).save(folder / "images" / name)
    result = named(sort="copy")
    assert result["threshold"] == pytest.approx(0.4 * np.log(1.5) / np.log(2))  # 3 classes, linear in the logarithm
    unknown = {picture["file"]: picture["unknown"] for picture in result["pictures"]}
    assert {os.path.basename(name) for name, no in unknown.items() if no} == noise
    assert {row["file"]: row["unknown"] for row in table(folder)} == {
        name: "yes" if no else "no" for name, no in unknown.items()
    }
    assert {path.name for path in (folder / "out" / "sorted" / "unknown").iterdir()} == noise
    again = predict(folder / "out" / "classifier.safetensors", [folder / "images"])
    assert all(p["unknown"] == unknown[os.path.relpath(p["file"], folder / "images")] for p in again["pictures"])
    assert "resembles none of the examples" in labels_page(result)
    calibrated["familiarity"]["threshold"] = [1.1, 1.1, 1.1]  # nothing is that familiar: given labels alone are known
    strict = named(sort="copy")
    assert [p["unknown"] for p in strict["pictures"]] == [not p["support"] for p in strict["pictures"]]
    assert all(
        picture["label"] == truth(picture["file"]) for picture in strict["pictures"] if picture["file"][0] == "d"
    )
    assert {path.name for path in (folder / "out" / "sorted").iterdir()} == {".sorted.json", "unknown"}


def test_predict_wants_the_same_weights(folder, named, model, tmp_path_factory):
    named()
    other = tmp_path_factory.mktemp("other") / "tiny.safetensors"
    from protoadapt.vision.networks.backbones import build
    from protoadapt.vision.networks.model_files import save_fp16

    about = {"backbone": "resnet12", "width": 8, "crop": "none", "dataset": "x", "size": 24}
    save_fp16(build("resnet12", 8), about | {"mean": [0.5] * 3, "std": [0.25] * 3}, other)
    classifier, picture = folder / "out" / "classifier.safetensors", folder / "images" / "day 0" / "red-0.png"
    with pytest.raises(UserError, match="has other weights"):
        predict(classifier, [picture], model=other)
    moved = shutil.copy(model, other)
    assert predict(classifier, [picture], model=moved)["pictures"][0]["label"] == "red"
    for given, words in ((folder / "nowhere.png", "no picture"), (folder / "support" / ".." / "out", "can be read")):
        with pytest.raises(UserError, match=words):
            predict(classifier, [given])


def test_bad_input_is_a_sentence_and_leaves_nothing(folder, named):
    (folder / "empty").mkdir()
    (folder / "file").write_text("")
    for options, words in (
        ({"images": "empty"}, "there are no pictures in"),
        ({"images": "nowhere"}, "there is no folder"),
        ({"support": ("nowhere",)}, "there is no"),
        ({"support": ("empty",)}, "gives no labels"),
        ({"out": "file"}, "is a file: give a folder"),
        ({"out": "images"}, "a folder of their own"),
        ({"out": "support", "sort": "copy"}, "--out and --support are both .*: give the results a folder of"),
        ({"method": "magic"}, "there is no method"),
        ({"sort": "move"}, "choose copy or link"),
    ):
        with pytest.raises(UserError, match=words):
            named(**options)
    assert not (folder / "out").exists()


@pytest.mark.parametrize("name", ["labels.parquet", "labels-00003-of-00008.parquet"])
def test_labels_of_features_are_neither_lost_nor_left_beside_others(folder, named, name):
    (folder / "out").mkdir()
    (folder / "out" / "labels-of-mine.parquet").touch()
    named()
    before = listing(folder / "out")
    (folder / "out" / name).touch()
    with pytest.raises(UserError, match=f"{name}' holds labels of label --features: remove it, or choose"):
        named(method="protonet")
    assert listing(folder / "out") == before | {name: b""}


def test_pictures_that_all_fail(folder, named):
    for path in (folder / "images").rglob("*-*.*"):
        path.write_text("no picture")
    with pytest.raises(UserError, match="no picture can be read"):
        named()
    for path in (folder / "support" / "red").iterdir():
        path.write_text("no picture")
    for path in (folder / "support" / "blue").iterdir():
        path.write_text("no picture")
    shutil.copy(folder / "support" / "green" / "0.png", folder / "images" / "a.png")
    with pytest.raises(UserError, match="two are needed"):
        named()


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
    pictured = outputs.report_images(rows)
    large = [rows[i] for i, key, side in pictured if (key, side) == ("preview", 256)]
    assert [row["file"] for row in large if not row["unknown"]] == [f"{i:04d}" for i in range(30) if i % 10 < 8]
    assert len(large) == outputs.UNSURE + outputs.STRANGE
    assert min(row["confidence"] for row in large if row["unknown"]) > 0.59, "the surest: they stand first"
    small = [i for i, key, side in pictured if (key, side) == ("thumb", 96)]
    assert len(pictured) == len(large) + len(small)
    assert len(small) + outputs.WEIGHT * len(large) <= outputs.THUMBS
    assert outputs.UNSURE >= FIRST


def test_the_report_leads_to_the_pictures(folder, named):
    result = named(out="results/named")
    assert result["folder"] == "../../images"
    linked = re.findall(r'<a href="([^#"]*)"', labels_page(result))
    assert len(linked) >= 24
    assert all((folder / "results" / "named" / unquote(way)).is_file() for way in linked)
    assert {way.split("/")[2] for way in linked} == {"images", "support"}
    assert str(folder) not in labels_page(result)
    assert outputs.link_between(folder, "/pictures") is None, "nobody need know what else is on this disk"


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


@pytest.mark.parametrize("way", ["copy", "link"])
def test_what_cannot_be_sorted_is_told_and_the_rest_is_sorted(folder, named, paint, way):
    """A file name as long as can be is sorted; a class name longer than a folder's can be is not."""
    paint(folder / "images" / f"red-{'x' * 247}.png", "red", 99)
    (folder / "t.csv").write_text(
        f"file,label\nday 0/red-0.png,red\nday 0/green-0.png,green\nday 0/blue-0.png,{'b' * 300}\n"
    )
    result = named(support=("t.csv",), sort=way)
    assert {one["reason"].split(":")[0] for one in result["skipped"]} == {"not sorted"}
    assert len(result["skipped"]) == 6
    assert all("too long" in one["reason"].lower() for one in result["skipped"])
    assert len(list((folder / "out" / "sorted" / "red").rglob("*.*"))) == 7
    assert len(list((folder / "out" / "sorted" / "green").rglob("*.*"))) == 6
    again = named(support=("t.csv", "out/labels.csv"), sort=way)
    assert again["left_alone"] == 0


def test_classes_that_differ_in_case_are_noted_and_not_sorted(folder, named):
    (folder / "t.csv").write_text("file,label\nday 0/red-0.png,Red\n")
    result = named(support=("support", "t.csv"))
    assert result["notes"] == ["the new class 'Red' is almost 'red': check whether one is misspelt"]
    assert named(out="other")["notes"] == []
    with pytest.raises(UserError, match="the classes 'Red' and 'red' into one folder on many computers"):
        named(support=("support", "t.csv"), out="third", sort="copy")
    assert not (folder / "third").exists()
