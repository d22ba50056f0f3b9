"""`check` as a user meets it: planted faults, and data that cannot be checked."""

import json
import shutil

import pytest
from helpers import command
from helpers.label_files import read_table
from helpers.pages import Parsed


@pytest.fixture
def labelled(folder, paint):
    """Three classes of ten pictures."""
    for colour in ("red", "green", "blue"):
        for i in range(10):
            paint(folder / "labelled" / colour / f"{colour}-{i}.png", colour, 50 + i)
    return folder / "labelled"


def test_planted_faults_are_reported(protoadapt, folder, labelled):
    (labelled / "red" / "red-3.png").rename(labelled / "blue" / "red-3.png")
    shutil.copy(labelled / "green" / "green-1.png", labelled / "green" / "again.png")
    shutil.copy(labelled / "green" / "green-2.png", labelled / "red" / "green-2.png")
    (labelled / "red" / "broken.png").write_text("no picture")
    out, err = protoadapt("check", "labelled", "--out", "checked")
    assert "32 pictures of 3 classes" in out
    assert "1 label that is probably wrong\n  blue/red-3.png: blue, more likely red" in out
    assert "broken.png: it is no picture" in err
    document = json.loads((folder / "checked" / "check.json").read_text())
    assert [(one["file"], one["label"], one["likely"]) for one in document["suspects"]] == [
        ("blue/red-3.png", "blue", "red")
    ]
    exact = [one for one in document["duplicates"] if one["identical"] or one["contradicts"]]
    files = [sorted(one["file"] for one in group["files"]) for group in exact]
    assert any({"green/green-2.png", "red/green-2.png"} <= set(group) for group in files)
    assert exact[0]["contradicts"], "the worst first"
    rows = read_table(folder / "checked" / "check.csv")
    assert (rows[0]["file"], rows[0]["fault"], rows[0]["detail"]) == ("blue/red-3.png", "label", "red")
    assert {row["file"] for row in rows if row["fault"] == "duplicate"} >= {"green/again.png", "green/green-1.png"}
    protoadapt("report", "checked/check.json", "--out", "again.html")
    again, page = ((folder / name).read_text() for name in ("again.html", "checked/check.html"))
    assert again == page
    seen = Parsed(page)
    assert "Picture blue/red-3.png" in [a["alt"] for a, _ in seen.all("img")]
    assert "more likely red" in page.replace("<bdi>", "")


def test_confused_classes_are_shown_with_pictures(protoadapt, folder, paint, labelled):
    """Two classes of the same colour: the page shows which pictures look like the other."""
    for i in range(10):
        paint(labelled / "crimson" / f"crimson-{i}.png", "red", 80 + i)
    protoadapt("check", "labelled", "--out", "checked")
    pair = json.loads((folder / "checked" / "check.json").read_text())["confused"][0]
    assert pair["classes"] == ["crimson", "red"]
    assert 2 <= min(pair["pictures"], 12) == len(pair["files"])
    page = Parsed((folder / "checked" / "check.html").read_text())
    shown = [a["alt"] for a, _ in page.all("img")]
    assert all(f"Picture {one['file']}" in shown for one in pair["files"])


def test_a_table_and_pictures_elsewhere(protoadapt, folder, labelled):
    rows = [f"{p.name},{p.parent.name if p.name != 'red-3.png' else 'green'}" for p in labelled.rglob("*.png")]
    (folder / "tables").mkdir()
    (folder / "tables" / "t.csv").write_text("\n".join(["file,label", *rows]))
    protoadapt("check", "tables/t.csv", "--images", "labelled", "--out", "checked")
    document = json.loads((folder / "checked" / "check.json").read_text())
    assert [(one["file"], one["likely"]) for one in document["suspects"]] == [("red/red-3.png", "red")]


def test_guesses_of_label_are_not_checked_and_counted(protoadapt, folder, labelled):
    rows = [f"{p.parent.name}/{p.name},{p.parent.name},{p.parent.name}" for p in labelled.rglob("*.png")]
    own = [f"red/red-{i}.png,red,(folder) red" for i in range(3)] + ["blue/blue-1.png,blue,green"]
    (folder / "labels.csv").write_text("\n".join(["file,label,guess", *own, *rows]))
    out, err = protoadapt("check", "labels.csv", "--images", "labelled", "--out", "checked")
    assert "4 pictures of 2 classes" in out
    assert "note: 30 labels are a guess of `label` that nobody changed: not checked\n" in err


def test_data_that_is_hardly_any(protoadapt, folder, paint):
    paint(folder / "one" / "red" / "1.png", "red")
    out, _ = protoadapt("check", "one", "--out", "o")
    assert "1 picture of 1 class\n0 labels that are probably wrong" in out
    for name in ("a", "b"):  # two classes of identical pictures
        for i in range(2):
            paint(folder / "same" / name / f"{i}.png", "red", 0)
    out, _ = protoadapt("check", "same", "--out", "o")
    assert "1 group of near-duplicates" in out
    assert json.loads((folder / "o" / "check.json").read_text())["duplicates"][0]["contradicts"] is True


def test_mistakes_are_one_sentence(folder, labelled, model):
    (folder / "missing.csv").write_text("file,label\nnowhere.png,cat\n")
    (folder / "mine").mkdir()
    (folder / "mine" / "check.csv").write_text("my own table\n")
    for words, expected in (
        (("missing.csv", "--out", "o"), "remove the line, or give its folder with --support or --images"),
        (("labelled", "--out", "mine"), "was not written by this command"),
        (("labelled", "--out", "missing.csv"), "is a file"),
    ):
        assert expected in command.refused("check", *words, "--model", model, cwd=folder)
    assert (folder / "mine" / "check.csv").read_text() == "my own table\n"
    assert not (folder / "o" / "check.csv").exists()
