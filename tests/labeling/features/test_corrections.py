"""Corrections of labels that `label --features` wrote: they count when they come back and are never lost."""

import pytest
from helpers.archive import label_features, of, write_csv
from helpers.label_files import correct

from protoadapt import UserError
from protoadapt.labeling import collection as labelling

pq = pytest.importorskip("pyarrow.parquet")
pytestmark = pytest.mark.usefixtures("without_paths")


def test_corrections_are_not_lost_and_count_when_they_come_back(features, table, tmp_path):
    write_csv(tmp_path / "s.csv", table[0], shots=2)
    out, wrong = tmp_path / "out", table[0][-1]
    label_features([tmp_path / "s.csv"], features, out)
    for labels, lost in ((("dark", "mid"), 4), (("x", "y"), 6)):  # of s.csv's own six, two are the same or all differ
        (tmp_path / "other.csv").write_text("file,label\na/000.png,{}\nb/001.jpg,{}\n".format(*labels))
        with pytest.raises(UserError, match=f"holds {lost} corrections that would be lost"):
            label_features([tmp_path / "other.csv"], features, out)
    correct(out / "labels.csv", wrong, "dark")
    before = (out / "labels.csv").read_bytes()
    with pytest.raises(UserError, match=f"holds 1 correction that would be lost, such as '{wrong}'"):
        label_features([tmp_path / "s.csv"], features, out)
    assert (out / "labels.csv").read_bytes() == before
    result = label_features([tmp_path / "s.csv", out / "labels.csv"], features, out)
    assert [one["support"] for one in result["classes"]] == [3, 2, 2]  # those in both tables once
    assert (of(out)[wrong]["label"], of(out)[wrong]["support"]) == ("dark", True)
    label_features([out / "labels.csv"], features, out)
    with pytest.raises(UserError, match="holds 1 correction that"):  # still people's work, runs later
        label_features([tmp_path / "s.csv"], features, out)


@pytest.mark.parametrize("few", [labelling.FEW, 10])
def test_what_is_edited_while_it_runs_is_not_lost(few, features, table, tmp_path, monkeypatch):
    """Neither replaced, nor removed where the rows are many."""
    write_csv(tmp_path / "s.csv", table[0], shots=2)
    out = tmp_path / "out"
    label_features([tmp_path / "s.csv"], features, out)
    monkeypatch.setattr(labelling, "FEW", few)
    edited = []

    def edit(stage, done, total):
        if not edited:
            correct(out / "labels.csv", table[0][-1], "dark")
            edited.append((out / "labels.csv").read_bytes())

    kept = [out / "labels.json", out / "labels.parquet", out / "classifier.safetensors"]
    before = [path.read_bytes() for path in kept]
    with pytest.raises(UserError, match=r"labels\.csv' was changed while this ran, and is left as it is: run the same"):
        label_features([tmp_path / "s.csv"], features, out, on_progress=edit, method="cipa")
    assert [(out / "labels.csv").read_bytes()] == edited
    assert [path.read_bytes() for path in kept] == before
    assert not list(out.glob(".*partial"))
