"""`label --sort`: class folders that follow the labels and never touch what is not theirs."""

import json
import os
import shutil

import pytest
from helpers.label_files import almost_the_same, listing

from protoadapt.core.errors import UserError

pytestmark = pytest.mark.usefixtures("without_paths")


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
    with pytest.raises(UserError, match="leads out of"):
        named(sort="copy")
    assert not list((folder / "elsewhere").iterdir())
    shutil.rmtree(folder / "out" / "sorted")
    (folder / "out" / "sorted").symlink_to(folder / "elsewhere")
    with pytest.raises(UserError, match="leads out of"):
        named(sort="copy")
    assert not list((folder / "elsewhere").iterdir())
    (folder / "out" / "sorted").unlink()
    (folder / "out" / "sorted").mkdir()
    victim = folder / "images" / "day 0" / "red-0.png"
    about = victim.stat()
    lie = {"../../images/day 0/red-0.png": f"{about.st_size} {about.st_mtime_ns}"}
    (folder / "out" / "sorted" / ".sorted.json").write_text(json.dumps(lie))
    with pytest.raises(UserError, match=r"leads out of .*: remove the link there, or .sorted.json"):
        named(sort="copy")
    assert victim.exists()


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
    assert result["notes"] == [almost_the_same("Red", "red")]
    assert named(out="other")["notes"] == []
    with pytest.raises(UserError, match="put 'Red' and 'red' into one folder on many disks"):
        named(support=("support", "t.csv"), out="third", sort="copy")
    assert not (folder / "third").exists()


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
