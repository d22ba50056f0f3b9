"""Corrections in labels.csv: they come back as examples and are never lost."""

import shutil

import pytest
from helpers.label_files import correct, listing, read_table, truth, write_table

from protoadapt.core.errors import UserError

pytestmark = pytest.mark.usefixtures("without_paths")


def test_a_correction_feeds_back(folder, named):
    named()
    rows = read_table(folder / "out" / "labels.csv")
    assert [row["guess"] for row in rows if row["file"].startswith("..")] == [
        f"(folder) {colour}" for colour in ("blue", "blue", "green", "green", "red", "red")
    ]
    wrong = next(row for row in rows if truth(row["file"]) == "red")
    wrong["label"] = "crimson"  # a class that nobody had thought of
    write_table(folder / "out" / "labels.csv", rows)
    with pytest.raises(UserError, match="holds 1 correction that would be lost"):
        named()  # the first command once more, from the shell's history
    assert read_table(folder / "out" / "labels.csv") == rows  # nothing is lost
    result = named(support=("out/labels.csv",))
    counts = {one["name"]: one["support"] for one in result["classes"]}
    assert counts == {"blue": 2, "green": 2, "red": 2, "crimson": 1}  # guesses are guessed again
    with pytest.raises(UserError, match="would be lost"):
        named()
    assert {one["name"] for one in named(support=("support", "out/labels.csv"))["classes"]} == set(counts)
    assert {row["guess"] for row in read_table(folder / "out" / "labels.csv") if row["file"] == wrong["file"]} == {
        "(table)"
    }
    (folder / "images" / wrong["file"]).unlink()
    with pytest.raises(UserError, match="holds 1 correction that would be lost"):  # it may be back tomorrow
        named()


@pytest.mark.parametrize("moment", ["pictures embedded", "thumbnails"])
@pytest.mark.parametrize(("file", "label"), [("day 0/green-0.png", "red"), ("day 0/blue-0.png", "")])
def test_what_is_edited_while_it_runs_is_not_lost(folder, named, moment, file, label):
    """A new correction, or an earlier one that is taken back; and no other result is replaced either."""
    named()
    correct(folder / "out" / "labels.csv", "day 0/blue-0.png", "red")
    edited = []

    def edit(what, done, total):
        if what == moment and not edited:
            correct(folder / "out" / "labels.csv", file, label)
            files = listing(folder / "out").items()
            edited.append({name: content for name, content in files if "partial" not in name})  # thumbnails come along

    with pytest.raises(UserError, match=r"was changed while this ran, and is left as it is: run"):
        named(support=("support", "out/labels.csv"), method="protonet", on_progress=edit)
    after = listing(folder / "out")
    assert {name: after[name] for name in edited[0]} == edited[0]
    assert not [name for name in after if "partial" in name]


def test_two_labels_of_one_picture_are_a_sentence_and_nothing_is_lost(folder, named):
    named()
    correct(folder / "out" / "labels.csv", "../support/blue/0.png", "red")
    before = listing(folder / "out")
    shutil.copytree(folder / "support" / "red", folder / "same" / "a")
    shutil.copytree(folder / "support" / "red", folder / "same" / "b")
    (folder / "twice.csv").write_text("file,label\nday 0/red-0.png,red\nday 0/red-0.png,blue\n")
    for support, words in (
        (("support",), r"holds 1 correction that would be lost, such as .*blue/0\.png"),
        (("support", "out/labels.csv"), r"blue/0\.png' is labelled 'blue' .*, the same picture, 'red' .*: keep one"),
        (("twice.csv",), r"red-0.png' is labelled 'red' in .*twice.csv' and '.*red-0.png', the same picture, 'blue'"),
        (("same",), r"is labelled 'a' in .* the same picture, 'b' in .*: keep one of the two labels"),
    ):
        with pytest.raises(UserError, match=words):
            named(support=support)
        after = {name: content for name, content in listing(folder / "out").items() if name in before}
        assert after == before  # features of further pictures may have been stored


def test_unknown_is_a_correction_that_is_kept(folder, named):
    named()
    correct(folder / "out" / "labels.csv", "day 0/blue-0.png", "Unknown")
    with pytest.raises(UserError, match=r"holds 1 correction that would be lost, such as .*blue-0"):
        named()
    for _ in range(2):
        result = named(support=("support", "out/labels.csv"), sort="copy")
        row = next(row for row in read_table(folder / "out" / "labels.csv") if row["file"] == "day 0/blue-0.png")
        assert (row["label"], row["unknown"], row["guess"]) == ("unknown", "yes", "(table)")
        assert [one["support"] for one in result["classes"]] == [2, 2, 2]
        assert (folder / "out" / "sorted" / "unknown" / "day 0" / "blue-0.png").is_file()
        assert result["notes"] == []
    for support in (("out/sorted",), ("support", "out/sorted/unknown")):
        again = named(support=(*support, "out/labels.csv"), out="again")
        left_out = {"file": "../out/sorted/unknown", "reason": "pictures of no class are no examples"}
        assert (again["notes"], again["skipped"]) == ([], [left_out])
        assert [one["name"] for one in again["classes"]] == ["blue", "green", "red"]
    with pytest.raises(UserError, match=r"unknown' gives no labels: make"):
        named(support=("out/sorted/unknown",), out="again")
    correct(folder / "out" / "labels.csv", "../support/blue/0.png", "unknown")
    with pytest.raises(
        UserError, match=r"blue/0\.png' is labelled 'blue' .*, the same picture, 'unknown' .*: keep one"
    ):
        named(support=("support", "out/labels.csv"))


def test_a_guess_is_confirmed_by_emptying_it(folder, named):
    named()
    text = (folder / "out" / "labels.csv").read_text().replace("no,,red", "no,,")
    (folder / "out" / "labels.csv").write_text(text)
    with pytest.raises(UserError, match="holds 6 corrections"):
        named()
    result = named(support=("support", "out/labels.csv"))
    assert {one["name"]: one["support"] for one in result["classes"]} == {"blue": 2, "green": 2, "red": 8}
