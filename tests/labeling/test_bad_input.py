"""Input that cannot be labelled, or hardly: a clear sentence, and nothing lost."""

import shutil

import numpy as np
import pytest
from helpers.label_files import correct, listing, read_table

from protoadapt.core.errors import UserError
from protoadapt.labeling.collection import Collection
from protoadapt.labeling.label_methods import make_estimator

pytestmark = pytest.mark.usefixtures("without_paths")


def test_a_sentence_and_nothing_lost(folder, named, paint):
    named()
    (folder / "out" / "mine.txt").write_text("mine")
    correct(folder / "out" / "labels.csv", "day 0/red-0.png", "blue")
    before = listing(folder / "out")
    paint(folder / "one" / "red" / "1.png", "red")
    shutil.copytree(folder / "support" / "red", folder / "same" / "a")
    shutil.copytree(folder / "support" / "red", folder / "same" / "b")
    (folder / "missing.csv").write_text("file,label\nday 0/red-0.png,red\nday 0/gone.png,blue\n")
    (folder / "twice.csv").write_text("file,label\nday 0/red-0.png,red\nday 0/red-0.png,blue\n")
    (folder / "other.csv").write_text("file,label\nday 0/red-0.png,green\nday 0/green-0.png,green\n")
    (folder / "one class.csv").write_text("file,label\nday 0/red-0.png,red\nday 1/red-1.jpg,red\n")
    (folder / "names.csv").write_text("file\nday 0/red-0.png\n")
    for support, words in (
        (("missing.csv",), r"line 3 of '.*missing.csv' names 'day 0/gone.png', which is neither beside it nor in"),
        (("twice.csv",), r"red-0.png' is labelled 'red' in .*twice.csv' and '.*red-0.png', the same picture, 'blue'"),
        (("one class.csv",), "gives one class only, 'red': add examples of at least one other class"),
        (("one",), "gives one class only, 'red'"),
        (("same",), r"is labelled 'a' in .* the same picture, 'b' in .*: keep one of the two labels"),
        (("names.csv",), "has no columns file and label, each once: name them"),
        (("support",), "holds 1 correction that would be lost"),
    ):
        with pytest.raises(UserError, match=words) as error:
            named(support=support)
        assert "\n" not in str(error.value)
        after = {name: content for name, content in listing(folder / "out").items() if name in before}
        assert after == before  # features of further pictures may have been stored


def test_no_unlabelled_pictures(folder, named):
    result = named(images="support")
    assert [one["found"] for one in result["classes"]] == [0, 0, 0]
    assert result["next"] == []
    assert all(row["guess"].startswith("(folder)") for row in read_table(folder / "out" / "labels.csv"))


def test_two_classes_that_look_the_same(folder, named, paint):
    """The same pixels in files of different bytes: no answer is right, but there is one for every picture."""
    for name in ("a", "b"):
        paint(folder / "alike" / name / f"1.{'png' if name == 'a' else 'bmp'}", "red", 1)
    result = named(support=("alike",))
    asked = [one for one in result["pictures"] if not one["support"]]
    assert len(asked) == 18
    assert all(one["confidence"] == pytest.approx(0.5, abs=0.01) for one in asked)


def test_thousands_of_classes():
    rng = np.random.default_rng(0)
    classes = [f"class {i}" for i in range(3000)]
    rows = rng.random((3050, 8), dtype=np.float32)
    codes = np.append(np.arange(3000), np.full(50, -1))
    rows[3000:] = rows[:50]
    about = {"model": "m", "weights": "0" * 16, "size": 8, "mean": [0.5] * 3, "std": [0.5] * 3, "trained_on": ""}
    task = Collection.of_rows(
        "t", [f"{i}.png" for i in range(3050)], np.arange(3050), rows, codes, classes, about | {"calibration": None}
    )
    result = task.name(make_estimator("protonet", {})).result
    assert [one["label"] for one in result["pictures"][3000:]] == classes[:50]
    assert len(result["classes"]) == 3000
