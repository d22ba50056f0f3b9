"""`label --features`: from shards, the labels of a fit with all rows in memory; in one process and in two."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from shards.archive import save_model

from protoadapt import CIPAClassifier, UserError, models
from protoadapt.estimators import BAPAClassifier
from protoadapt.labeling import load_classifier
from protoadapt.labeling.streamed import label_features
from protoadapt.shards import extract, store

pq = pytest.importorskip("pyarrow.parquet")
CLASSES = {"a": "dark", "b": "mid", "c": "light"}  # by folder, as the archive's pictures are shaded


@pytest.fixture(scope="module")
def features(model, manifest, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("features")
    extract(model, manifest, out, workers=1)
    return out


@pytest.fixture(scope="module")
def table(features) -> tuple[list[str], np.ndarray]:
    """All names and rows, in memory."""
    paths = sorted(features.glob("shard-*"))
    names = [name for path in paths for name in store.read_names(store.check(path))[0]]
    return names, np.concatenate([store.read_rows(store.check(path)) for path in paths]).astype(np.float32)


def write_csv(path: Path, names: list[str], shots: int) -> dict[str, str]:
    chosen = {n: CLASSES[f] for f in "abc" for n in [n for n in names if n[0] == f][:shots]}
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([("file", "label"), *chosen.items()])
    return chosen


def of(folder: Path) -> dict[str, dict]:
    rows = [row for path in sorted(folder.glob("labels*.parquet")) for row in pq.read_table(path).to_pylist()]
    return {row["file"]: row for row in rows}


@pytest.mark.parametrize("method", ["bapa", "cipa"])
def test_the_labels_are_those_of_a_fit_in_memory(method, features, table, tmp_path):
    names, rows = table
    given = write_csv(tmp_path / "s.csv", names, shots=3)
    told = label_features(tmp_path / "s.csv", features, tmp_path / "out", method=method)
    y = np.array([given.get(name) for name in names], object)
    model = {"bapa": BAPAClassifier, "cipa": CIPAClassifier}[method]().fit(rows, y)
    found = of(tmp_path / "out")
    assert list(found) == names
    assert [row["label"] for row in found.values()] == model.transduction_.tolist()
    for row, best, p in zip(found.values(), model.two_best_, model.two_best_proba_):
        if row["file"] in given:
            assert (row["support"], row["confidence"], row["runner_up"], row["margin"]) == (True, 1, None, 1)
        else:
            assert row["runner_up"] == model.classes_[best[1]]
            assert row["confidence"] == pytest.approx(p[0], abs=1e-4)
            assert row["margin"] == pytest.approx(p[0] - p[1], abs=1e-4)
    counts = {one["name"]: (one["support"], one["found"]) for one in told["classes"]}
    unasked = [row["label"] for row in found.values() if not row["support"]]
    assert counts == {name: (3, unasked.count(name)) for name in ("dark", "light", "mid")}
    assert sorted(one["file"] for one in told["skipped"]) == ["b/050x.png", "c/text.jpg"]
    right = [row["label"] == CLASSES[name[0]] for name, row in found.items()]
    assert np.mean(right) > 0.9


def test_rows_lead_back_to_the_manifest(features, manifest, table, tmp_path):
    write_csv(tmp_path / "s.csv", table[0], shots=1)
    label_features(tmp_path / "s.csv", features, tmp_path / "out", method="cipa", settings={"n_iter": 1})
    for name, row in of(tmp_path / "out").items():
        assert manifest.read(row["shard"])[row["row"]].path == name


def test_a_folder_of_class_folders_is_embedded_as_extract_does(features, archive, model, table, tmp_path):
    names, rows = table
    for name in write_csv(tmp_path / "s.csv", names, shots=2):
        copy = tmp_path / "support" / CLASSES[name[0]] / Path(name).name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes((archive / name).read_bytes())
    told = label_features(tmp_path / "support", features, tmp_path / "out", model=model)
    assert [one["support"] for one in told["classes"]] == [2, 2, 2]
    assert not any(row["support"] for row in of(tmp_path / "out").values())  # copies: the archive's own stay unnamed
    saved = load_classifier(tmp_path / "out" / "classifier.safetensors")
    best = saved.answer(rows).best
    assert [saved.classes[b] for b in best[:, 0]] == [row["label"] for row in of(tmp_path / "out").values()]
    assert saved.model["weights"] == models.load(model)[1]["weights"]


def test_pictures_of_no_class_are_unknown_as_in_memory(features, model, table, tmp_path):
    """The shade that nobody named, by the model's card as it is now, and as the saved classifier says of the rows."""
    names, rows = table
    write_csv(tmp_path / "all.csv", names, shots=4)
    lines = (tmp_path / "all.csv").read_text().splitlines()
    (tmp_path / "s.csv").write_text("\n".join(line for line in lines if not line.startswith("c/")))
    assert not label_features(tmp_path / "s.csv", features, tmp_path / "plain")["calibrated"]
    assert not any(row["unknown"] for row in of(tmp_path / "plain").values())
    calibration = {"temperature": 2.0, "method": "bapa", "familiarity": {"way": [2], "threshold": [0.4]}}
    card = {"schema": "protoadapt-model/1", "weights": models.load(model)[1]["weights"], "calibration": calibration}
    own = tmp_path / model.name
    own.write_bytes(model.read_bytes())
    own.with_suffix(".json").write_text(json.dumps(card))
    told = label_features(tmp_path / "s.csv", features, tmp_path / "out", model=own)
    assert (told["calibrated"], told["temperature"], told["threshold"]) == (True, 2.0, 0.4)
    found = of(tmp_path / "out")
    asked = {name: row["unknown"] for name, row in found.items() if not row["support"]}
    assert all(asked[name] for name in asked if name[0] == "c")
    assert np.mean([asked[name] for name in asked if name[0] != "c"]) < 0.1
    saved = load_classifier(tmp_path / "out" / "classifier.safetensors").answer(rows).unknown
    assert [asked.get(name, False) for name in names] == [n in asked and bool(no) for n, no in zip(names, saved)]
    with open(tmp_path / "out" / "labels.csv", newline="") as file:
        assert {row["file"]: row["unknown"] == "yes" for row in csv.DictReader(file)} == {
            name: row["unknown"] for name, row in found.items()
        }
    assert {p["file"]: p["unknown"] for p in told["pictures"]} == {name: row["unknown"] for name, row in found.items()}


def test_features_of_two_models_never_mix(features, archive, tmp_path):
    other = save_model(tmp_path / "other.safetensors", seed=5)
    (tmp_path / "s" / "x").mkdir(parents=True)
    (tmp_path / "s" / "y").mkdir()
    (tmp_path / "s" / "x" / "1.png").write_bytes((archive / "a" / "000.png").read_bytes())
    (tmp_path / "s" / "y" / "1.png").write_bytes((archive / "b" / "004.png").read_bytes())
    with pytest.raises(UserError, match="features of two models do not mix"):
        label_features(tmp_path / "s", features, tmp_path / "out", model=other)
    assert not (tmp_path / "out").exists()


def test_few_rows_have_a_csv_and_a_report_too(features, table, tmp_path):
    write_csv(tmp_path / "s.csv", table[0], shots=2)
    told = label_features(tmp_path / "s.csv", features, tmp_path / "out")
    with open(tmp_path / "out" / "labels.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["file"]: row["label"] for row in rows} == {n: r["label"] for n, r in of(tmp_path / "out").items()}
    assert told == json.loads((tmp_path / "out" / "labels.json").read_text())
    assert told["paths"]["rows"]
    assert all(picture["thumb"].startswith("data:image/jpeg") for picture in told["pictures"])
    # the guesses that a labels.csv holds are no labels when it comes back
    with open(tmp_path / "guesses.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(row for row in rows if row["guess"] == row["label"])
    with pytest.raises(UserError, match="two are needed"):
        label_features(tmp_path / "guesses.csv", features, tmp_path / "again")


def test_mistakes_are_one_sentence_and_leave_nothing(features, table, tmp_path, monkeypatch):
    (tmp_path / "s.csv").write_text("file,label\nnot/there.png,x\na/000.png,y\n")
    with pytest.raises(UserError, match=r"1 pictures that have no row, such as 'not/there.png'"):
        label_features(tmp_path / "s.csv", features, tmp_path / "out")
    with pytest.raises(UserError, match="bapa, or cipa"):
        label_features(tmp_path / "s.csv", features, tmp_path / "out", method="pt_map")
    with pytest.raises(UserError, match="there are no features"):
        label_features(tmp_path / "s.csv", tmp_path, tmp_path / "out")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(UserError, match="pip install"):
        label_features(tmp_path / "s.csv", features, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_two_processes_that_add_up_their_sums_equal_one(features, table, tmp_path):
    """The command itself, under torchrun, each process with half of the shards (gloo)."""
    given = write_csv(tmp_path / "s.csv", table[0], shots=3)
    words = ["label", "--features", features, "--support", tmp_path / "s.csv", "--out", tmp_path / "two"]
    start = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "protoadapt"]
    run = subprocess.run(map(str, [*start, *words, "--device", "cpu"]), capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    label_features(tmp_path / "s.csv", features, tmp_path / "one")
    assert sorted(p.name for p in (tmp_path / "two").glob("*.parquet")) == [
        "labels-00000-of-00002.parquet",
        "labels-00001-of-00002.parquet",
    ]
    one, two = of(tmp_path / "one"), of(tmp_path / "two")
    assert one.keys() == two.keys()
    assert sum(row["support"] for row in two.values()) == len(given)
    for name, row in one.items():
        assert row["label"] == two[name]["label"]
        assert row["confidence"] == pytest.approx(two[name]["confidence"], abs=1e-6)
    first, second = (json.loads((tmp_path / name / "labels.json").read_text()) for name in ("one", "two"))
    assert first["classes"] == second["classes"]
    assert (tmp_path / "two" / "report.html").is_file()
