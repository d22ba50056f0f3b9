"""`label` and `predict` as a user meets them."""

import json
import os
import subprocess
import sys

import pytest
import torch
from helpers import command
from helpers.label_files import almost_the_same, correct, listing, read_table, truth
from helpers.pages import board_data

from protoadapt.cli import options as cli_options
from protoadapt.labeling.label_methods import make_estimator


@pytest.mark.parametrize("name", ["report.html", "labels.json", "classifier.safetensors", "labels.csv"])
def test_a_file_of_another_kind_is_never_replaced(protoadapt, folder, model, name):
    places = ["--support", "support", "--images", "images", "--out", "out", "--model", model]
    (folder / "out").mkdir()
    (folder / "out" / name).write_text("my own notes\n")
    _, err = protoadapt("label", *places, code=2)
    assert name in err
    assert (folder / "out" / name).read_text() == "my own notes\n"
    assert [file.name for file in (folder / "out").iterdir() if file.is_file()] == [name]


def test_folders_whose_names_are_not_text(protoadapt, folder, model):
    """Everything that a command wrote into such a folder is read from there again, the cache included."""
    strange = folder / os.fsdecode(b"caf\xe9")
    strange.mkdir()
    own = strange / "model.safetensors"
    own.write_bytes(model.read_bytes())
    protoadapt("label", "--support", "support", "--images", "images", "--out", strange / "out", "--model", own)
    pieces = {piece: piece.stat().st_mtime_ns for piece in strange.rglob("*.safetensors")}
    protoadapt("label", "--support", "support", "--images", "images", "--out", strange / "again", "--model", own,
               "--cache", strange / "out" / ".features")  # fmt: skip
    assert {piece: piece.stat().st_mtime_ns for piece in pieces} == pieces
    out, _ = protoadapt("predict", strange / "out" / "classifier.safetensors", "support/blue")
    assert ": blue (" in out
    protoadapt("extract", own, "--images", "support", "--out", strange / "f.safetensors")
    protoadapt("evaluate", strange / "f.safetensors", "--way", 2, "--query", 1, "--episodes", 2)


def test_label_then_predict(protoadapt, folder, model):
    strange = os.fsdecode(b"red-caf\xe9\x1b[31m.png")
    (folder / "images" / "day 0" / "red-0.png").rename(folder / "images" / strange)
    (folder / "images" / "broken.png").write_text("no picture")
    places = ["--support", "support", "--images", "images", "--out", "out"]
    out, err = protoadapt("label", *places, "--model", model, "--sort", "link", "--set", "n_iter=5")
    assert "8 red (with 2 examples)" in out
    assert "broken.png: it is no picture" in err
    assert sorted(os.listdir(folder / "out")) == [
        ".features", ".thumbs", "classifier.safetensors", "labels.csv", "labels.json", "report.html", "sorted",
    ]  # fmt: skip
    report = (folder / "out" / "report.html").read_text()
    assert "red-1.jpg" in report
    assert json.loads((folder / "out" / "labels.json").read_text())["method"]["settings"]["n_iter"] == 5

    out, _ = protoadapt("predict", "out/classifier.safetensors", "images/" + strange, "support/blue")
    assert [line.split(": ")[1].split()[0] for line in out.splitlines()] == ["red", "blue", "blue"]
    assert r"caf\xe9\x1b[31m.png" in out


@pytest.mark.parametrize("label", ["red", "unknown"])
def test_a_label_that_a_person_gave_explains_itself(protoadapt, folder, model, label):
    places = ["--images", "images", "--out", "out", "--model", model]
    protoadapt("label", "--support", "support", *places)
    correct(folder / "out" / "labels.csv", "day 0/blue-0.png", label)
    both = ["--support", "support", "--support", "out/labels.csv"]
    out, _ = protoadapt("label", *both, *places, "--explain", "images/day 0/blue-0.png")
    assert f"day 0/blue-0.png: {label} (labelled by you)\n" in out


def test_predictions_with_a_report_and_sorted_pictures(protoadapt, folder, model, without_paths):
    protoadapt("label", "--support", "support", "--images", "images/day 0", "--out", "out", "--model", model)
    new = ("predict", "out/classifier.safetensors", "images")
    for _ in range(2):  # the second time over the first, whose copies are no new pictures
        out, _ = protoadapt(*new, "--out", "images/new", "--sort", "copy")
        assert out.endswith("images/new/labels.csv, images/new/report.html\n")
        document = json.loads((folder / "images" / "new" / "labels.json").read_text())
        assert len(document["pictures"]) == 18
    rows = read_table(folder / "images" / "new" / "labels.csv")
    assert [row["file"] for row in rows] == [one["file"] for one in document["pictures"]]
    assert all(row["label"] == truth(row["file"]) == row["guess"] for row in rows)
    assert (rows[0]["unknown"], rows[0]["group"]) == ("no", "")
    small = board_data((folder / "images" / "new" / "report.html").read_text())["small"]
    assert [(one or "")[:16] for one in small] == ["data:image/webp;"] * 18
    assert (folder / "images" / "new" / "sorted" / "red" / "day 1" / "red-1.jpg").is_file()
    counts = [{"name": n, "support": 0, "found": 6, "unknown": 0} for n in ("blue", "green", "red")]
    assert document["classes"] == counts

    correct(folder / "images" / "new" / "labels.csv", "day 0/red-0.png", "blue")
    before = listing(folder / "images" / "new")
    for words, expected in (
        (("--out", "images/new"), "holds 1 correction that would be lost"),
        (("--out", "out"), "holds results of label, which would be replaced"),
        (("--sort", "copy"), "--sort has no effect without --out"),
        (("--out", "o", "--sort", "move"), "choose copy or link"),
    ):
        _, err = protoadapt(*new, *words, code=2)
        assert expected in err
        assert err.count("\n") == 1
    assert listing(folder / "images" / "new") == before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("label --support support --images images --model lite9", "no model"),
        ("label --support support", "give --images DIR"),
        ("label --support support --features f --sort copy", "--sort has no effect with --features: leave it out"),
        ("label --support support --features f --images i --cache c", "--images and --cache have no effect with"),
        ("predict nowhere.safetensors images", "no classifier"),
        ("predict no.safetensors images --sort copy", "--sort has no effect without --out"),
        ("suggest --images images --cache images/day-1/red-1.jpg", "is a file: give a folder"),
        ("export cub --sort copy", "--sort has no effect with --format onnx: leave it out"),
        ("export cub --images images", "--images has no effect with --format onnx"),
        ("export o --format fiftyone --sort copy --url http://x", "--sort and --url have no effect with --format fift"),
        ("export o --format fiftyone --classifier c", "--classifier has no effect with --format fiftyone"),
    ],
)
def test_mistakes_are_one_sentence(folder, model, words, said):
    words = words.split()
    words += [] if words[0] == "predict" else ["--out", "c.onnx" if words[1] == "cub" else "out"]
    words += ["--model", model] if words[0] in ("label", "suggest") and "--model" not in words else []
    (folder / "images" / "day-1").symlink_to(folder / "images" / "day 1")
    assert said in command.refused(*words, cwd=folder)


def test_a_class_that_may_be_misspelt_is_said_in_one_line(protoadapt, folder, model):
    (folder / "t.csv").write_text("file,label\nday 0/green-0.png,Green\n")
    places = ["--support", "support", "--support", "t.csv", "--images", "images", "--out", "out"]
    _, err = protoadapt("label", *places, "--model", model)
    assert err == f"note: {almost_the_same('Green', 'green')}\n"


def test_of_many_skipped_files_the_others_are_counted_and_found(protoadapt, folder, model):
    for number in range(7):
        (folder / "images" / f"broken-{number}.png").write_text("no picture")
    places = ("--support", "support", "--images", "images", "--model", model, "--out")
    more = "  … and 2 more, which {} lists\n"
    _, err = protoadapt("label", *places, "o")
    assert err.startswith("7 files were skipped:\n")
    assert err.endswith(more.format("o/report.html"))
    assert "broken-6.png" in (folder / "o" / "report.html").read_text()
    _, err = protoadapt("suggest", *places[2:], "s", "--n", "2")
    assert err.endswith(more.format("s/next.json"))
    assert "broken-6.png" in (folder / "s" / "next.json").read_text()
    assert "broken-6.png" in protoadapt("predict", "o/classifier.safetensors", "images")[1]
    _, err = protoadapt("predict", "o/classifier.safetensors", "images", "--out", "p")
    assert err.endswith(more.format("p/report.html"))
    for number in range(7):
        (folder / "images" / "day 0").joinpath(f"green-{number}.png").unlink(missing_ok=True)
    for file in (folder / "images").rglob("red-*"):
        file.unlink()
    _, err = protoadapt("export", "o", "--out", "dataset")
    assert err.count("there is no such picture any more") > 5, "this is the only list"


def test_nothing_to_name_is_said_and_one_file_is_no_files(protoadapt, folder, model):
    (folder / "support" / "red" / "broken.png").write_text("no picture")
    out, err = protoadapt("label", "--support", "support", "--images", "support", "--out", "out", "--model", model)
    assert "No picture was left to label: there are only your 6 examples." in out
    assert "(from" not in out
    assert "1 file was skipped:" in err
    assert "No picture was left to label: there are only your 6 examples." in (folder / "out/report.html").read_text()


def test_code_beside_the_pictures_does_not_run(folder, model):
    """HEIC pictures ask for a package that may be missing; the current folder is no place to look for it."""
    (folder / "pillow_heif.py").write_text("import os; os.mkdir('ran')\nraise ImportError\n")
    words = ["check", "support", "--out", "out", "--model", str(model)]  # reads pictures as all do, and is the quickest
    for done in (
        subprocess.run([sys.executable, "-m", "protoadapt", *words], cwd=folder, capture_output=True, text=True),
        command.run(*words, cwd=folder),  # as the installed command starts: the current folder is not on its path
    ):
        assert done.returncode == 0, done.stderr
        assert not (folder / "ran").exists()


def test_a_gpu_is_looked_for_where_the_system_has_one(monkeypatch):
    monkeypatch.setattr(cli_options, "GPU_FILES", (os.devnull,))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert cli_options.find_device("auto") == "cuda"
    monkeypatch.setattr(cli_options, "GPU_FILES", ("/dev/no such device",))
    assert cli_options.find_device("auto") == "cpu"
    monkeypatch.setattr(cli_options.sys, "platform", "darwin")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert cli_options.find_device("auto") == "mps"
    assert cli_options.find_device("auto", mps=False) == "cpu", "methods need float64"
    assert make_estimator("bapa", {}, "mps").device == "cpu"
