"""`label --features`: from shards, the labels of a fit with all rows in memory."""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers.archive import CLASSES, label_features, of, write_csv
from helpers.label_files import read_table

from protoadapt import UserError
from protoadapt.cli.label_command import label_command
from protoadapt.core.parts import INDEX, open_parts, read_lists
from protoadapt.labeling import load_classifier, predict
from protoadapt.labeling.label_methods import make_estimator
from protoadapt.labeling.onnx_export import export
from protoadapt.vision import networks
from protoadapt.vision.pictures.walk import find
from protoadapt.vision.shards.extract import extract_parts
from protoadapt.vision.shards.manifest import write_manifest

pq = pytest.importorskip("pyarrow.parquet")
pytestmark = pytest.mark.usefixtures("without_paths")


@pytest.mark.parametrize("method", ["bapa", "cipa", "protonet", "semi_protonet", "soft_kmeans"])
def test_the_labels_are_those_of_a_fit_in_memory(method, features, manifest, table, tmp_path):
    names, rows = table
    given = write_csv(tmp_path / "s.csv", names, shots=3)
    result = label_features([tmp_path / "s.csv"], features, tmp_path / "out", method=method)
    y = np.array([given.get(name) for name in names], object)
    model = make_estimator(method, {}).fit(rows, y)
    found = of(tmp_path / "out")
    assert list(found) == names
    assert [manifest.read(row["shard"])[row["row"]].path for row in found.values()] == names
    assert [row["label"] for row in found.values()] == model.transduction_.tolist()
    for row, best, p in zip(found.values(), model.two_best_, np.sort(model.predict_proba(rows))[:, ::-1]):
        if row["file"] in given:
            assert (row["support"], row["confidence"], row["runner_up"], row["margin"]) == (True, 1, None, 1)
        else:
            assert row["runner_up"] == model.classes_[best[1]]
            assert row["confidence"] == pytest.approx(p[0], abs=1e-4)
            assert row["margin"] == pytest.approx(p[0] - p[1], abs=1e-4)
    counts = {one["name"]: (one["support"], one["found"]) for one in result["classes"]}
    unasked = [row["label"] for row in found.values() if not row["support"]]
    assert counts == {name: (3, unasked.count(name)) for name in ("dark", "light", "mid")}
    assert sorted(one["file"] for one in result["skipped"]) == ["b/050x.png", "c/text.jpg"]
    right = [row["label"] == CLASSES[name[0]] for name, row in found.items()]
    assert np.mean(right) > {"protonet": 0.5, "semi_protonet": 0.6}.get(method, 0.9)


@pytest.mark.parametrize(
    "lie", [{"model": ["m"]}, {"weights": None}, {"dataset": 5}, {"size": "84"}, {"std": [0, 0, 0]}]
)
def test_an_index_that_does_not_describe_its_network_is_refused(features, table, tmp_path, lie):
    shutil.copytree(features, tmp_path / "features")
    write_csv(tmp_path / "s.csv", table[0], shots=2)
    index = json.loads((features / INDEX).read_text())
    (tmp_path / "features" / INDEX).write_text(json.dumps(index | {"model": index["model"] | lie}))
    with pytest.raises(UserError, match="does not describe its network"):
        label_features([tmp_path / "s.csv"], tmp_path / "features", tmp_path / "out")


def test_a_folder_of_class_folders_is_embedded_as_extract_does(features, archive, model, table, tmp_path):
    names, rows = table
    for name in write_csv(tmp_path / "s.csv", names, shots=2):
        copy = tmp_path / "support" / CLASSES[name[0]] / Path(name).name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes((archive / name).read_bytes())
    result = label_features([tmp_path / "support"], features, tmp_path / "out", model=model)
    assert [one["support"] for one in result["classes"]] == [2, 2, 2]
    assert not any(row["support"] for row in of(tmp_path / "out").values())  # copies: the archive's own stay unnamed
    saved = load_classifier(tmp_path / "out" / "classifier.safetensors")
    best = saved.answer(rows).best
    assert [saved.classes[b] for b in best[:, 0]] == [row["label"] for row in of(tmp_path / "out").values()]
    assert saved.model["weights"] == networks.load(model)[1]["weights"]


def test_pictures_of_no_class_are_a_group_as_in_memory(features, table, tmp_path):
    """The shade that nobody named, as the saved classifier says of the rows."""
    names, rows = table
    write_csv(tmp_path / "all.csv", names, shots=4)
    lines = (tmp_path / "all.csv").read_text().splitlines()
    (tmp_path / "s.csv").write_text("\n".join(line for line in lines if not line.startswith("c/")))
    result = label_features([tmp_path / "s.csv"], features, tmp_path / "out")
    assert [one["name"] for one in result["unnamed"]] == ["unnamed-1"]
    found = of(tmp_path / "out")
    asked = {name: row["unknown"] for name, row in found.items() if not row["support"]}
    assert all(found[name]["group"] == "unnamed-1" for name in asked if name[0] == "c")
    assert np.mean([asked[name] for name in asked if name[0] != "c"]) < 0.1
    saved = load_classifier(tmp_path / "out" / "classifier.safetensors").answer(rows).unknown
    assert [asked.get(name, False) for name in names] == [n in asked and bool(no) for n, no in zip(names, saved)]
    unknown = {name: row["unknown"] for name, row in found.items()}
    assert {row["file"]: row["unknown"] == "yes" for row in read_table(tmp_path / "out" / "labels.csv")} == unknown
    assert {picture["file"]: picture["unknown"] for picture in result["pictures"]} == unknown


def test_few_rows_have_a_csv_and_a_report_too(features, table, tmp_path, monkeypatch):
    monkeypatch.undo()  # with paths
    write_csv(tmp_path / "s.csv", table[0], shots=2)
    result = label_features([tmp_path / "s.csv"], features, tmp_path / "out")
    rows = read_table(tmp_path / "out" / "labels.csv")
    assert {row["file"]: row["label"] for row in rows} == {n: r["label"] for n, r in of(tmp_path / "out").items()}
    assert result == json.loads((tmp_path / "out" / "labels.json").read_text())
    assert result["paths"]["rows"]
    assert all((tmp_path / "out" / picture["thumb"]).is_file() for picture in result["pictures"])


def test_mistakes_are_one_sentence_and_leave_nothing(features, table, tmp_path, monkeypatch):
    (tmp_path / "s.csv").write_text("file,label\nnot/there.png,x\na/000.png,y\n")
    with pytest.raises(UserError, match=r"1 picture without a row, such as 'not/there.png'"):
        label_features([tmp_path / "s.csv"], features, tmp_path / "out")
    with pytest.raises(UserError, match="pt_map would read all rows thousands of times: choose bapa"):
        label_features([tmp_path / "s.csv"], features, tmp_path / "out", method="pt_map")
    with pytest.raises(UserError, match="there are no features"):
        label_features([tmp_path / "s.csv"], tmp_path, tmp_path / "out")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(ModuleNotFoundError, match="pyarrow"):  # of which the command line makes a sentence
        label_features([tmp_path / "s.csv"], features, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_name_of_several_rows_and_no_rows_at_all_are_said(archive, model, tmp_path):
    names = ["a/000.png", "b/001.jpg"]
    (tmp_path / "twice").write_text("".join(f"{archive / name}\n" for name in [*names, names[0]]))
    (tmp_path / "empty.png").touch()
    (tmp_path / "none").write_text("empty.png\n")
    for name in ("twice", "none"):
        made = write_manifest(tmp_path / f"{name}.jsonl", *find([tmp_path / name]))
        extract_parts(model, made, tmp_path / f"features-{name}", workers=1)
    (tmp_path / "s.csv").write_text("file,label\n" + "".join(f"{archive / n},{CLASSES[n[0]]}\n" for n in names))
    with pytest.raises(UserError, match="several rows have the name"):
        label_features([tmp_path / "s.csv"], tmp_path / "features-twice", tmp_path / "out")
    with pytest.raises(UserError, match="has no rows"):
        label_features([tmp_path / "s.csv"], tmp_path / "features-none", tmp_path / "out")
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="is a file: give a folder"):
        label_features([tmp_path / "s.csv"], tmp_path / "features-twice", tmp_path / "file")


def test_a_classifier_of_two_views_sees_pictures_twice_when_it_answers(model, manifest, archive, tmp_path):
    extract_parts(model, manifest, tmp_path / "features", workers=1, views=2)
    names = [name for part in open_parts(tmp_path / "features").parts for name in read_lists(part)["names"]]
    write_csv(tmp_path / "s.csv", names, shots=3)
    label_features([tmp_path / "s.csv"], tmp_path / "features", tmp_path / "out")
    made = tmp_path / "out" / "classifier.safetensors"
    assert load_classifier(made).model["views"] == 2
    found = of(tmp_path / "out")
    for picture in predict(made, [archive / name for name in names], model=model)["pictures"]:
        row = found[str(Path(picture["file"]).relative_to(archive))]
        assert row["support"] or picture["confidence"] == pytest.approx(
            row["confidence"], abs=2e-3
        )  # shards hold half precision
    with pytest.raises(UserError, match="2 views"):
        export(model, tmp_path / "x.onnx", load_classifier(made))


def test_the_command_says_what_it_found_and_wrote(features, tmp_path, capsys):
    (tmp_path / "s.csv").write_text("file,label\na/000.png,dark\na/003.jpg,dark\nb/001.jpg,mid\nb/004.png,mid\n")
    out = tmp_path / "out"
    label_command(out, [tmp_path / "s.csv"], features=features, device="cpu")
    said = capsys.readouterr()
    *classes, summary, about, group, written = said.out.splitlines()
    assert said.err == ""
    number = sum(row["unknown"] for row in of(out).values())
    assert number > 0
    lead = "114 pictures labelled with 2 classes from 4 examples."
    assert summary == f"{lead} {number} may belong to no class; 2 were skipped."
    assert len(classes) == 2
    assert about.startswith("About ")
    assert group.endswith("look like a kind without a name (unnamed-1): name it.")
    assert written == f"{out / 'labels.parquet'}, {out / 'labels.csv'}, {out / 'report.html'}"
    assert summary in (out / "report.html").read_text(), "the terminal and the report say the same"
