"""Labels in the formats of other tools: read back by the tools themselves where they are installed."""

import json
import os
import xml.etree.ElementTree as ElementTree
from unittest.mock import Mock
from urllib.parse import quote

import pytest
from helpers.label_files import correct, read_table, truth, write_table

from protoadapt.core.errors import UserError
from protoadapt.labeling import dataset_export
from protoadapt.labeling.dataset_export import export_labels


@pytest.fixture
def labels(folder, named, without_paths):
    """labels.json of a folder with pictures of one name in two formats, and one that a person called unknown."""
    os.rename(folder / "images" / "day 0" / "red-0.png", folder / "images" / "day 0" / "red-2.png")
    (folder / "none.csv").write_text("file,label\nday 1/red-1.jpg,unknown\n")
    named(support=("support", "none.csv"), method="protonet")
    return folder / "out" / "labels.json"


def expected(file: str) -> str:
    folder, name = os.path.split(file)
    return "unknown" if name == "red-1.jpg" else os.path.basename(folder) if name[0] in "01" else truth(name)


def test_hugging_face_loads_the_imagefolder(labels, folder, tmp_path, monkeypatch):
    """With a class that is called as a split, too."""
    for name in ("HF_HOME", "HF_DATASETS_CACHE"):
        monkeypatch.setenv(name, str(tmp_path / "hf"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    datasets = pytest.importorskip("datasets")
    correct(folder / "out" / "labels.csv", "day 0/red-2.png", "test")
    for way in ("link", "copy"):
        export_labels(labels, "imagefolder", tmp_path / way, sort=way)
        loaded = datasets.load_dataset(str(tmp_path / way), split="train", cache_dir=str(tmp_path / f"cache {way}"))
        assert set(loaded.column_names) == {"image", "label", "confidence", "unknown", "by_person"}
        rows = {row["file_name"]: row for row in read_table(tmp_path / way / "metadata.csv")}
        assert len(loaded) == len(rows) == 24
        assert sorted(loaded["label"]) == sorted("test" if name[:4] == "test" else expected(name) for name in rows)
        assert loaded[0]["image"].size == (30, 26)
        assert sum(mark in ("yes", True) for mark in loaded["by_person"]) == 8


def test_the_fiftyone_format_as_documented(labels, tmp_path):
    """classes, and a target with its position for each key of data.json without the last suffix."""
    export_labels(labels, "fiftyone", tmp_path / "fo")
    document, data = (json.loads((tmp_path / "fo" / name).read_text()) for name in ("labels.json", "data.json"))
    assert document["classes"] == ["blue", "green", "red", "unknown"]
    assert {os.path.splitext(key)[0] for key in data} == set(document["labels"])
    assert len(data) == 24, "red-2.png and red-2.jpg stay apart"
    for key, path in data.items():
        target = document["labels"][os.path.splitext(key)[0]]
        assert document["classes"][target["label"]] == expected(path)
        assert (tmp_path / "fo" / path).is_file()


def test_keywords_for_photo_libraries_lie_as_the_pictures_do(labels, folder, tmp_path):
    correct(folder / "out" / "labels.csv", "day 0/red-2.png", "R & <B>")
    export_labels(labels, "xmp", tmp_path / "xmp")
    sidecars = {str(file.relative_to(tmp_path / "xmp")): file for file in (tmp_path / "xmp").rglob("*.xmp")}
    assert len(sidecars) == 18, "none for the examples, which lie elsewhere"
    for name, file in sidecars.items():
        picture = name.removesuffix(".xmp")
        assert (folder / "images" / picture).is_file()
        words = [one.text for one in ElementTree.parse(file).iter("{http://www.w3.org/1999/02/22-rdf-syntax-ns#}li")]
        assert words == ["R & <B>" if picture == "day 0/red-2.png" else expected(picture)]


def test_the_label_studio_format_as_documented(labels, tmp_path):
    export_labels(labels, "label-studio", tmp_path / "ls", url="https://pictures.example/")
    config = ElementTree.parse(tmp_path / "ls" / "config.xml").getroot()
    assert [one.get("value") for one in config.iter("Choice")] == ["blue", "green", "red", "unknown"]
    names = {one.get("name") for one in config.iter() if one.get("name")}
    tasks = json.loads((tmp_path / "ls" / "tasks.json").read_text())
    assert len(tasks) == 24
    for task in tasks:
        ((kind, (said,)),) = [(key, value) for key, value in task.items() if key != "data"]
        assert (kind == "annotations") == (task["data"]["file"].startswith("..") or "red-1" in task["data"]["file"])
        (result,) = said["result"]
        assert {result["from_name"], result["to_name"]} == names
        assert (result["type"], result["value"]) == ("choices", {"choices": [expected(task["data"]["file"])]})
        assert task["data"]["image"].startswith("https://pictures.example/")
        assert task["data"]["image"].endswith(quote(task["data"]["file"]))
        assert kind == "annotations" or 0 < said["score"] <= 1
    export_labels(labels, "label-studio", tmp_path / "bucket", url="s3://bucket/")  # keys are what they are
    tasks = json.loads((tmp_path / "bucket" / "tasks.json").read_text())
    assert all(task["data"]["image"] == "s3://bucket/" + task["data"]["file"] for task in tasks)


def test_what_cannot_be_exported_is_said_in_a_sentence(labels, folder, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    document = json.loads(labels.read_text())

    def changed(**changes):
        (folder / "out" / "other.json").write_text(json.dumps(document | changes))
        return folder / "out" / "other.json"

    sample = [one | {"found": 10**6} for one in document["classes"]]
    new, gone = tmp_path / "o", folder / "nowhere"
    for given, form, out, options, words in (
        (labels, "imagefolder", tmp_path / "full", {}, "is not an empty folder"),
        (gone, "fiftyone", new, {}, "labels.json' is no labels.json of `label`"),
        (changed(folder=None), "fiftyone", new, {}, "do not say where their pictures are"),
        (labels, "fiftyone", new, {"images": tmp_path}, "give their folder with --images"),
    ):
        with pytest.raises(UserError, match=words):
            export_labels(given, form, out, **options)
    first, *others = document["pictures"]
    odd = [{"confidence": []}, {"confidence": None}, {"confidence": float("nan")}, {"file": 7}, {"label": ["a"]}]
    for wrong in odd:
        with pytest.raises(UserError, match=r"is no labels.json of `label`"):
            export_labels(changed(pictures=[first | wrong, *others]), "fiftyone", new)
    for key in ("file", "label", "confidence", "unknown", "support"):
        less = {name: value for name, value in first.items() if name != key}
        with pytest.raises(UserError, match=r"is no labels.json of `label`"):
            export_labels(changed(pictures=[less, *others]), "imagefolder", new)
    with pytest.raises(UserError, match="has 24 of 3,000,00"):
        export_labels(changed(classes=sample), "fiftyone", tmp_path / "o")
    assert not (tmp_path / "o").exists()
    assert [*(tmp_path / "full").iterdir()] == [tmp_path / "full" / "mine.txt"]


def test_a_lack_of_memory_is_not_the_files_fault(labels, tmp_path, monkeypatch):
    monkeypatch.setattr(dataset_export, "clean_json", Mock(side_effect=MemoryError))
    with pytest.raises(MemoryError):
        export_labels(labels, "fiftyone", tmp_path / "new")


@pytest.mark.parametrize("form", ["imagefolder", "fiftyone"])
def test_a_dataset_is_there_whole_or_not_at_all(labels, tmp_path, monkeypatch, form):
    """Stopped before its last file, an export leaves nothing, and runs again."""

    def full(path, text):
        raise OSError("the disk is full")

    (tmp_path / "made").mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(dataset_export, "write_text", full)
        with pytest.raises(OSError, match="full"):
            export_labels(labels, form, tmp_path / "made" / "set")
    assert not [*(tmp_path / "made").iterdir()]
    export_labels(labels, form, tmp_path / "made" / "set")
    assert [*(tmp_path / "made").iterdir()] == [tmp_path / "made" / "set"]
    assert all(file.is_file() for file in (tmp_path / "made" / "set").rglob("*.*")), "links lead to the pictures"


def test_files_that_are_no_pictures_or_gone_are_left_out(labels, folder, tmp_path):
    document = json.loads(labels.read_text())
    document["pictures"][0]["file"] = "../none.csv"  # a labels.json from elsewhere might name any file
    document["pictures"][1]["file"] = "gone.png"
    (folder / "out" / "other.json").write_text(json.dumps(document))
    done = export_labels(folder / "out" / "other.json", "imagefolder", tmp_path / "o")
    assert (done["pictures"], [one["file"] for one in done["skipped"]]) == (22, ["../none.csv", "gone.png"])
    assert not [*(tmp_path / "o").rglob("*none*")]


def test_corrections_in_labels_csv_are_exported(labels, folder, tmp_path):
    """A changed label, a new class, an emptied guess and a picture called unknown; the classifier's guesses stay."""
    table = folder / "out" / "labels.csv"
    guessed = [row for row in read_table(table) if row["guess"] == row["label"]]
    first, second, third, fourth = (row["file"] for row in guessed[:4])
    correct(table, first, "green" if guessed[0]["label"] == "red" else "red")
    correct(table, second, "a new one")
    correct(table, fourth, "unknown")
    write_table(table, [row | {"guess": ""} if row["file"] == third else row for row in read_table(table)])
    write_table(table, [*read_table(table), {**dict.fromkeys(guessed[0], ""), "file": "x.png", "label": "red"}])
    for number, source in enumerate((labels, table, folder / "out")):
        done = export_labels(source, "label-studio", tmp_path / f"ls {number}")
        assert (done["pictures"], done["corrected"], [one["file"] for one in done["skipped"]]) == (24, 3, ["x.png"])
        tasks = {one["data"]["file"]: one for one in json.loads((tmp_path / f"ls {number}" / "tasks.json").read_text())}
        wanted = {row["file"]: row["label"] for row in read_table(table)}
        for file, task in tasks.items():
            ((kind, ((said),)),) = [(key, value) for key, value in task.items() if key != "data"]
            assert said["result"][0]["value"]["choices"] == [wanted[file]]
            assert kind == "annotations" or file not in (first, second, third, fourth)
    config = ElementTree.parse(tmp_path / "ls 0" / "config.xml").getroot()
    assert [one.get("value") for one in config.iter("Choice")] == ["blue", "green", "red", "a new one", "unknown"]


def test_an_imagefolder_has_a_folder_per_class(labels, folder, tmp_path):
    """Examples from elsewhere lie beside the others; pictures that would meet are numbered."""
    document = json.loads(labels.read_text())
    export_labels(folder / "out", "imagefolder", tmp_path / "o")
    label_of = {row["file_name"]: row["label"] for row in read_table(tmp_path / "o" / "metadata.csv")}
    assert {name.split("/")[0] for name in label_of} == {"blue", "green", "red", "unknown"}
    assert all(name.split("/")[0] == label and (tmp_path / "o" / name).is_file() for name, label in label_of.items())
    assert {"red/0.png", "red/day 0/red-2.png"} <= set(label_of)
    (folder / "more").mkdir()
    os.rename(folder / "images" / document["pictures"][0]["file"], folder / "more" / "0.PNG")
    document["pictures"][0] |= {"file": "../more/0.PNG", "label": "red"}
    (folder / "out" / "labels.json").write_text(json.dumps(document))
    export_labels(folder / "out", "imagefolder", tmp_path / "twice")
    names = {path.name: path.is_file() for path in (tmp_path / "twice" / "red").iterdir()}
    assert {"0.PNG": True, "0-2.png": True}.items() <= names.items()
