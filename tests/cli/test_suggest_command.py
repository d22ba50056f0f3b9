"""`suggest` as a user meets it: from no labels at all to a labelled folder."""

import json
import shutil

from helpers import command
from helpers.label_files import read_table, truth, write_table
from helpers.pages import Parsed


def fill_in(table, only=None) -> list[dict[str, str]]:
    """A person writes classes into next.csv."""
    rows = read_table(table)
    write_table(
        table, [row | {"label": truth(row["file"])} if only in (None, truth(row["file"])) else row for row in rows]
    )
    return rows


def test_from_no_labels_to_a_labelled_folder(protoadapt, folder, without_paths):
    (folder / "images" / "broken.png").write_text("no picture")
    out, err = protoadapt("suggest", "--images", "images", "--out", "named", "--n", "3")
    table = folder / "named" / "next.csv"
    assert "typical of its group" in out
    assert out.endswith("  protoadapt label --support named/next.csv --images images --out named\n")
    assert "broken.png: it is no picture" in err
    rows = fill_in(table)
    assert sorted(truth(row["file"]) for row in rows) == ["blue", "green", "red"], "one of each group"
    assert [row["label"] for row in rows] == [""] * 3
    document = json.loads((folder / "named" / "next.json").read_text())
    assert [one["file"] for one in document["pictures"]] == [row["file"] for row in rows]
    assert [one["stands_for"] for one in document["pictures"]] == [6, 6, 6]
    page = Parsed((folder / "named" / "next.html").read_text())
    assert [a["alt"] for a, _ in page.all("img")] == [f"Picture {row['file']}" for row in rows]
    assert all(a["src"].startswith("data:image/webp") for a, _ in page.all("img"))

    support = ("--support", "named/next.csv", "--images", "images", "--out", "named")
    protoadapt("label", *support, "--method", "protonet")
    labels = read_table(folder / "named" / "labels.csv")
    assert all(row["label"] == truth(row["file"]) for row in labels)
    assert sum(row["guess"] == "(table)" for row in labels) == 3

    before = read_table(table)
    done = command.run("suggest", *support, "--model", folder / "m.safetensors", cwd=folder)
    assert done.returncode == 2, "there is no such model"
    assert read_table(table) == before


def test_labels_that_somebody_wrote_stay(protoadapt, folder, without_paths):
    protoadapt("suggest", "--images", "images", "--out", "named", "--n", "5")
    table = folder / "named" / "next.csv"
    first = [row["file"] for row in fill_in(table, "red") if truth(row["file"]) == "red"]
    (folder / "mine").mkdir()
    shutil.copy(table, folder / "mine" / "labels.csv")
    out, _ = protoadapt("suggest", "--images", "images", "--out", "my next", "--support", "mine/labels.csv", "--n", "1")
    assert out.endswith("--support mine/labels.csv --support 'my next/next.csv' --images images --out mine\n")
    protoadapt("suggest", "--images", "images", "--out", "named", "--support", "named/next.csv", "--n", "4")
    rows = read_table(table)
    assert [row["file"] for row in rows if row["label"]] == first
    assert len(rows) == len(first) + 4, "of one class there is no classifier yet, but suggestions"
    assert not {row["file"] for row in rows if not row["label"]} & set(first)
    assert truth(rows[len(first)]["file"]) != "red", "where no label is near"
    protoadapt("suggest", "--images", "images", "--out", "named", "--n", "2")  # forgotten, and still there
    assert set(first) <= {row["file"] for row in read_table(table) if row["label"] == "red"}


def test_mistakes_are_one_sentence(folder, model):
    (folder / "empty").mkdir()
    for words, expected in (
        (("suggest", "--images", "empty", "--out", "o"), "there are no pictures in 'empty'"),
        (("suggest", "--images", "images", "--out", "o", "--n", "0"), "n is 0"),
        (("label", "--images", "images", "--out", "o"), "`protoadapt suggest --images images --out o`"),
    ):
        assert expected in command.refused(*words, "--model", model, cwd=folder)
    assert not (folder / "o" / "next.csv").exists()


def test_nothing_left(protoadapt, folder, without_paths):
    files = [str(path.relative_to(folder / "images")) for path in (folder / "images").rglob("*.*")]
    write_table(folder / "all.csv", [{"file": file, "label": truth(file)} for file in files])
    _, err = protoadapt("suggest", "--images", "images", "--out", "o", "--support", "all.csv", code=2)
    assert "nothing left to learn in 'images'" in err
