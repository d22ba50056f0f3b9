"""Labels as people give them: class folders, tables, corrected tables."""

import os

import numpy as np
import pytest

from protoadapt.core.errors import UserError
from protoadapt.core.prototype_model import Answers
from protoadapt.labeling.outputs import UNLABELED, labels_csv_text, picture_records
from protoadapt.labeling.support import IN_FOLDER, IN_TABLE, ON_PAGE, read_support


def labels_of(support, root):
    return sorted((os.path.relpath(example.file, root), example.label) for example in support.examples)


def test_a_folder_is_a_class_whatever_lies_deeper(tmp_path, paint):
    for name in ("cat/1.png", "cat/old/2.png", "a%2Fb/3.png", "Unknown/4.png", "stray.png"):
        paint(tmp_path / name, "red")
    support = read_support([tmp_path], tmp_path)
    assert labels_of(support, tmp_path) == [("a%2Fb/3.png", "a/b"), ("cat/1.png", "cat"), ("cat/old/2.png", "cat")]
    assert {os.path.basename(one.file): one.reason for one in support.skipped} == {
        "stray.png": "in no class folder",
        "Unknown": "pictures of no class are no examples",
    }


def test_a_class_folder_that_gives_nothing_is_refused_or_named(tmp_path, paint):
    root, table = tmp_path / "given", tmp_path / "t.csv"
    for name in ("cat/1.png", "dog/2.png", "dog/.3.png", ".newt/4.png"):
        paint(root / name, "red")
    for folder, why in (
        ("jxl", r"\(3 files without the suffix of a picture: 2 .jxl, 1 without any\)"),
        ("empty", r"\(it is empty\)"),
        ("link", r"\(a link to a folder, which is not followed: give that folder itself\)"),
        ("links", r"\(a link to a folder, which is not followed: give that folder itself\)"),
    ):
        if folder == "link":
            (root / folder).symlink_to(root / "cat")
        else:
            (root / folder).mkdir()
        if folder == "links":
            (root / folder / "deeper").symlink_to(root / "cat")
        for name in ("a.jxl", "b.JXL", "c") if folder == "jxl" else ():
            (root / folder / name).touch()
        with pytest.raises(UserError, match=f"the class '{folder}' has no picture in .*{folder}' {why}: add some, or"):
            read_support([root], tmp_path)
        table.write_text(f"file,label\n{root / 'dog' / '.3.png'},{folder}\n")  # the class is there all the same
        for support in (read_support([root, table], tmp_path), read_support([root], tmp_path, least=0)):
            assert {str(root / folder), str(root / ".newt")} <= {one.file for one in support.skipped}
        (root / folder).rename(tmp_path / folder)


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("end", ["\r\n", "\n", "\r"])
@pytest.mark.parametrize("start", ["", "\ufeff", "\ufeff\r\n\n"])
def test_a_table_as_spreadsheets_write_it(tmp_path, paint, delimiter, start, end):
    paint(tmp_path / "tables" / "beside it.png", "red")
    paint(tmp_path / "images" / "deep" / "b.png", "red")
    lines = [
        ("Label", "File"),
        (" cat ", "beside it.png"),
        ("dog", "deep/b.png"),
        ("", "no.png"),
        ("unknown", "no.png"),
    ]
    text = start + "".join(delimiter.join(line) + end for line in lines)
    (tmp_path / "tables" / "t.csv").write_bytes(text.encode())
    support = read_support([tmp_path / "tables" / "t.csv"], tmp_path / "images")
    assert labels_of(support, tmp_path) == [("images/deep/b.png", "dog"), ("tables/beside it.png", "cat")]


def test_guesses_come_back_only_where_somebody_changed_them(tmp_path, paint):
    for name in "abcdefghij":
        paint(tmp_path / f"{name}.png", "red")
    table = tmp_path / "labels.csv"
    table.write_text(
        "file,label,guess\na.png,cat,cat\nb.png,dog,cat\nc.png,dog,\nd.png,cat,(table)\ne.png,'=x,'=x\n"
        "g.png,dog,(folder) dog\nh.png,dog,(folder) cat\ni.png,=x,(folder) '=x\nj.png,unknown,cat\n"
    )
    support = read_support([table], tmp_path)
    labels = {"b": "dog", "c": "dog", "d": "cat", "g": "dog", "h": "dog", "i": "=x", "j": "unknown"}
    assert labels_of(support, tmp_path) == [(f"{name}.png", label) for name, label in labels.items()]
    assert [example.by_table for example in support.examples] == [True, True, True, False, True, False, True]
    table.write_text("file,label\na.png,cat\nb.png,dog\ne.png,'=x\n")  # without that column all were checked
    assert labels_of(read_support([table], tmp_path), tmp_path) == [("a.png", "cat"), ("b.png", "dog"), ("e.png", "=x")]


@pytest.mark.parametrize("name", ["(table)", "(corrected)", "(folder)", "(folder) cat", "(page)", "(guess) cat", "(x)"])
def test_a_class_called_like_a_mark_is_guessed_like_any(tmp_path, paint, name):
    paint(tmp_path / "given.png", "red")
    paint(tmp_path / "guessed.png", "red")
    sure = Answers(np.array([[0, 1]] * 2), np.array([[1.0, 0.0]] * 2), np.ones(2), np.full(2, -1))
    for origin in (IN_FOLDER, IN_TABLE, ON_PAGE):
        codes = np.array([0, UNLABELED])
        records = picture_records(["given.png", "guessed.png"], sure, codes, [name, "dog"], np.full(2, origin))
        text = labels_csv_text({"pictures": records})
        (tmp_path / "labels.csv").write_text(text, newline="")
        found = read_support([tmp_path / "labels.csv"], tmp_path, least=0)
        assert labels_of(found, tmp_path) == [("given.png", name)]
        assert found.examples[0].by_table == (origin != IN_FOLDER)


@pytest.mark.parametrize("end", ["", "\n", "\ne0.png,emu\ne1.png,emu\n"])
def test_a_quotation_mark_that_is_not_closed_takes_no_line_away(tmp_path, paint, end):
    for name in ("c0.png", "d0.png", "c1.png", "e0.png", "e1.png"):
        paint(tmp_path / name, "red")
    (tmp_path / "t.csv").write_text('file,label\nc0.png,cat\nd0.png,dog\n"c1.png,emu' + end)
    with pytest.raises(UserError, match="check its quotation marks"):
        read_support([tmp_path / "t.csv"], tmp_path)


def test_a_table_as_excel_writes_it_in_western_europe_is_read(tmp_path, paint):
    paint(tmp_path / "käfer.png", "red")
    paint(tmp_path / "b.png", "blue")
    (tmp_path / "t.csv").write_bytes("file;label\r\nkäfer.png;Käfer – 10 €\r\nb.png;Bär\r\n".encode("cp1252"))
    found = labels_of(read_support([tmp_path / "t.csv"], tmp_path), tmp_path)
    assert found == [("b.png", "Bär"), ("käfer.png", "Käfer – 10 €")]


def test_accents_in_two_spellings_are_one_class(tmp_path, paint):
    """é as one character and as two. Files keep their names, of which both may exist."""
    one, two = "caf\u00e9", "cafe\u0301"
    for name in (f"s/{one}/1.png", f"s/{two}/2.png", f"{one}.png", f"{two}.png", "3.png", "4.png"):
        paint(tmp_path / name, "red")
    (tmp_path / "t.csv").write_text(
        f"file,label,guess\n{one}.png,{two},x\n{two}.png,tea,x\n3.png,{one},{two}\n4.png,{one},(folder) {two}\n"
    )
    support = read_support([tmp_path / "s", tmp_path / "t.csv"], tmp_path)
    assert labels_of(support, tmp_path) == sorted(
        [(f"s/{one}/1.png", one), (f"s/{two}/2.png", one), (f"{one}.png", one), (f"{two}.png", "tea"), ("4.png", one)]
    )  # the third was not changed, only spelled anew
    assert not next(example for example in support.examples if example.file.endswith("4.png")).by_table


def test_what_cannot_be_used_is_said_in_a_sentence(tmp_path, paint):
    table = tmp_path / "t.csv"
    (tmp_path / "empty").mkdir()
    paint(tmp_path / "one" / "cat" / "1.png", "red")
    for text, words in (
        ("name,class\na.png,cat\n", "no columns file and label"),
        ("file|label\na.png|cat\n", "in its first line, with a comma, semicolon or tab between"),
        ("", "t.csv' has no columns file and label"),
        ("\n\n", "t.csv' has no columns file and label"),
        ("file,label,Label\na.png,cat,dog\n", "no columns file and label, each once"),
        ("file,label\nnowhere.png,cat\n", r"line 2 .*'nowhere.png'"),
        ("file,label\n,\n", "gives no labels: write the class of some pictures into the column label of .*t.csv"),
        ("file\na.png\nb.png\n", "write the class of some pictures into label"),
    ):
        table.write_text(text)
        with pytest.raises(UserError, match=words):
            read_support([table], tmp_path)
    table.write_bytes(b"file,label\n\x81.png,cat\n")
    with pytest.raises(UserError, match="in UTF-8"):
        read_support([table], tmp_path)
    for source, words in (("empty", "gives no labels"), ("one", "one class only, 'cat'"), ("missing", "there is no")):
        with pytest.raises(UserError, match=words):
            read_support([tmp_path / source], tmp_path)


def test_a_mere_name_is_found_at_any_depth_if_there_is_one(tmp_path, paint):
    """As the page in the browser saves it, which sees no folders."""
    for name in ("day 1/a.png", "day 2/deep/=b.png", "day 1/twice.png", "day 1/c.png", "day 1/copy.png", "copy.png"):
        paint(tmp_path / "photos" / name, "red")
    paint(tmp_path / "photos" / "day 2" / "twice.png", "red", seed=1)
    paint(tmp_path / "tables" / "c.png", "red")
    table = tmp_path / "tables" / "saved.csv"
    table.write_text(
        "file,label,guess\na.png,cat,(table)\n./=b.png,dog,cat\nc.png,dog,\ntwice.png,cat,cat\ncopy.png,cat,(page)\n"
    )
    assert labels_of(read_support([table], tmp_path / "photos"), tmp_path) == [
        ("photos/copy.png", "cat"),
        ("photos/day 1/a.png", "cat"),
        ("photos/day 2/deep/=b.png", "dog"),
        ("tables/c.png", "dog"),
    ]
    for row, words in (
        ("twice.png,cat,(table)", r"line 2 .*'twice.png', .*day 1.* and, another file, .*day 2.*: write the full path"),
        ("nowhere.png,cat,(table)", "line 2 .*'nowhere.png'.*neither beside it nor below"),
        ("day 3/a.png,cat,(table)", "line 2 .*'day 3/a.png'.*neither beside it nor in"),
    ):
        table.write_text(f"file,label,guess\n{row}\n")
        with pytest.raises(UserError, match=words):
            read_support([table], tmp_path / "photos")


def test_a_table_names_files_of_the_other_support_too(tmp_path, paint):
    """As it comes from the page in the browser, where the examples lay in class folders and the rest elsewhere."""
    for name, seed in (("pictures/cat/1.png", 1), ("pictures/dog/2.png", 2), ("photos/3.png", 3), ("photos/2.png", 2)):
        paint(tmp_path / name, "red", seed)
    table, photos = tmp_path / "served.csv", tmp_path / "photos"
    table.write_text("file,label,guess\n1.png,cat,(page)\n2.png,dog,(page)\n3.png,bird,(page)\n")
    given = [("photos/2.png", "dog"), ("photos/3.png", "bird"), ("pictures/cat/1.png", "cat")]
    both = [tmp_path / "pictures", table]
    assert set(labels_of(read_support(both, photos), tmp_path)) == {*given, ("pictures/dog/2.png", "dog")}
    with pytest.raises(UserError, match=r"line 2 .*'1.png', which is neither beside it nor below '.*photos': correct"):
        read_support([table], photos)
    paint(photos / "1.png", "red", seed=9)  # the page saw two files of that name, and nobody knows which one this was
    with pytest.raises(UserError, match=r"line 2 .*photos/1.png' and, another file, .*cat/1.png': write the full path"):
        read_support(both, photos)
    for name in ("cat/1.png", tmp_path / "pictures" / "cat" / "1.png"):
        table.write_text(f"file,label,guess\n{name},cat,(page)\n2.png,dog,(page)\n")
        assert (os.path.join("pictures", "cat", "1.png"), "cat") in labels_of(read_support(both, photos), tmp_path)
    table.write_text("file,label,guess\n1.png,bird,cat\n")  # a table of `label` tells files of one name apart
    assert ("photos/1.png", "bird") in labels_of(read_support(both, photos), tmp_path)
    table.write_text("file,label,guess\nbird/1.png,cat,(page)\n")
    with pytest.raises(UserError, match=r"neither beside it nor in '.*photos' or '.*pictures': correct"):
        read_support(both, photos)
