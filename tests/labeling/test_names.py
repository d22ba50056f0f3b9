"""Names come back the same from csv, JSON and folders, whatever bytes they are made of."""

import csv
import io
import json
import os

from helpers.label_files import almost_the_same
from hypothesis import given
from hypothesis import strategies as st

from protoadapt.labeling.names import (
    class_of_cell,
    from_folder,
    from_text,
    slips,
    to_folder,
    to_text,
)
from protoadapt.labeling.outputs import labels_csv_text

file_names = st.binary(min_size=1, max_size=40).map(lambda raw: os.fsdecode(raw.replace(b"\0", b"0")))
class_names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


@given(file_names)
def test_files_survive_as_clean_text(name):
    text = to_text(name)
    text.encode("utf-8")  # raises where it is no text
    assert from_text(text) == name
    assert from_text(json.loads(json.dumps(text, ensure_ascii=False))) == name


def test_ordinary_names_stay_as_they_are():
    for name in ("a b/ü ж 猫.jpg", "two\nlines.png", "100%.gif", "a,b;c\td.webp"):
        assert to_text(name) == name
    assert to_text(os.fsdecode(b"caf\xe9.jpg")) == r"caf\xe9.jpg"
    assert to_text(r"a\xe9.jpg") == r"a\\xe9.jpg"


@given(st.lists(st.tuples(file_names, class_names, class_names), min_size=1, max_size=4))
def test_the_table_survives_and_holds_no_formula(rows):
    numbers = {"confidence": 0.5, "margin": 0.1, "density": 0.2, "unknown": False, "support": False, "group": None}
    pictures = [{"file": to_text(file), "label": one, "runner_up": other} | numbers for file, one, other in rows]
    text = labels_csv_text({"pictures": pictures}).encode().decode()
    back = list(csv.reader(io.StringIO(text, newline="")))[1:]
    assert len(back) == len(rows)
    for cells, (file, label, other) in zip(back, rows):
        assert os.path.normpath(from_text(cells[0])) == os.path.normpath(file)
        assert (class_of_cell(cells[1]), class_of_cell(cells[3])) == (label, other)
        assert not any(cell.startswith(("=", "+", "-", "@", "\t", "\r")) for cell in cells)


@given(class_names)
def test_a_class_is_one_folder(name):
    folder = to_folder(name)
    assert os.path.basename(folder) == folder
    assert folder not in ("", ".", "..")
    assert not folder.startswith(".")
    assert from_folder(folder) == name


def test_folders_of_people_keep_their_names():
    for name in ("50% wool", "%zz", "a%2fb"):  # the last is not how we write a/b
        assert from_folder(name) == name
    assert to_folder("../../etc") == "%2E.%2F..%2Fetc"


def test_a_new_class_that_may_be_a_slip_is_said():
    near = [(new, "Mallard") for new in ("mallard", "Malard", "Mallards", "Mellard", "Xallard")]
    near += [("tree_swallow", "Tree Swallow"), ("CAT", "cat")]
    apart = [("Meller", "Mallard"), ("dg", "dog"), ("car", "cat"), ("cats", "cat")]
    apart += [("Class 2", "Class 1"), ("Class 12", "Class 1")]
    for new, old in near + apart:
        said = [almost_the_same(new, old)] if (new, old) in near else []
        assert slips({new, old}, {old, "gadwall"}) == said
        assert slips({old}, {old, new}) == []  # both were there before
