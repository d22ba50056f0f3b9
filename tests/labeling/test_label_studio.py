"""What people labelled in Label Studio as examples."""

import json

import pytest

from protoadapt.core.errors import UserError
from protoadapt.labeling.check import check_folder
from protoadapt.labeling.dataset_export import export_labels
from protoadapt.labeling.support import read_support


def task(data, *choices, **more):
    result = [
        {"from_name": "label", "to_name": "image", "type": "choices", "value": {"choices": [one]}} for one in choices
    ]
    return {"data": data, "annotations": [{"result": result, **more}], "predictions": [{"result": result}]}


def found(folder, *tasks):
    (folder / "tasks.json").write_text(json.dumps(tasks))
    examples = read_support([folder / "tasks.json"], folder / "images").examples
    return {str(folder.joinpath(one.file).relative_to(folder / "images")): one.label for one in examples}


def test_pictures_are_found_by_what_their_addresses_end_in(folder):
    tasks = [
        task({"image": "/data/local-files/?d=photos/day%200/red-0.png"}, "red"),
        task({"picture": "s3://bucket/somewhere/day 1/red-1.jpg"}, "red"),
        task({"image": "https://host.example/x/blue-2.jpg?token=1"}, "blu\u0065\u0301"),
        task({"image": "/data/upload/3/0a1b2c3d-green-3.png"}, "green"),
        task({"image": "/data/upload/3/0a1b2c3d-green-2.jpg"}, "Unknown"),
        task({"image": "nowhere.png"}),
        task({"image": "nowhere.png"}, "red", was_cancelled=True),
        {"data": {"image": "nowhere.png"}, "predictions": task({}, "red")["annotations"]},
    ]
    assert found(folder, *tasks) == {
        "day 0/red-0.png": "red",
        "day 1/red-1.jpg": "red",
        "day 0/blue-2.jpg": "blué",
        "day 1/green-3.png": "green",
        "day 0/green-2.jpg": "unknown",
    }


def test_our_own_export_comes_back(folder, named, model, without_paths):
    named()
    export_labels(folder / "out", "label-studio", folder / "ls")
    examples = read_support([folder / "ls" / "tasks.json"], folder / "images", least=0).examples
    assert sorted({one.label for one in examples}) == ["blue", "green", "red"]
    assert len(examples) == 6, "guesses are no examples"
    found = check_folder([folder / "ls" / "tasks.json"], folder / "check", images=folder / "images", model=model)
    assert found["checked"] == 6


def test_what_cannot_be_used_is_said_in_a_sentence(folder, paint):
    paint(folder / "images" / "day 1" / "blue-0.png", "green")
    for tasks, words in (
        ([task({"image": "x/nowhere.png"}, "red")], "names 'x/nowhere.png', which is in none of the folders"),
        ([task({"image": "blue-0.png"}, "red")], r"could be '.*day 0/blue-0.png' or '.*day 1/blue-0.png'"),
        ([task({"image": "day 0/blue-0.png"}, "red", "blue")], "gives 'day 0/blue-0.png' 2 classes"),
        ([{"image": "a.png"}], "is no JSON export of Label Studio"),
        ([task({"image": "blue-0.png"}, 5)], "a choice is no list of texts"),
        ({"a": 1}, "is no JSON export of Label Studio"),
    ):
        (folder / "tasks.json").write_text(json.dumps(tasks))
        with pytest.raises(UserError, match=words):
            read_support([folder / "tasks.json"], folder / "images")


def test_a_blank_choice_is_no_class(folder):
    (folder / "tasks.json").write_text(json.dumps([task({"image": "day 0/blue-0.png"}, " ")]))
    with pytest.raises(UserError, match="gives no labels"):
        read_support([folder / "tasks.json"], folder / "images")
