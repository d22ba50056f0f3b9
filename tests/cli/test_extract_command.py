"""Commands on one's own pictures: what they say and where they write."""

import json
from pathlib import Path

import pytest
from helpers.command import answered, refused, run
from helpers.small_pictures import class_folders

from protoadapt.core.features import load_features
from protoadapt.report.result_page import evaluation_page
from protoadapt.report.tables import embedding


def test_nothing_is_written_among_ones_own_pictures(mine: Path, model: Path, tmp_path: Path) -> None:
    before = sorted(mine.rglob("*"))
    answered("extract", model, "--images", mine, "--out", tmp_path / "made" / "f.safetensors")
    made = [path.name for path in sorted((tmp_path / "made").iterdir())]
    assert made == [".protoadapt-cache", "f.safetensors"]
    answered("extract", model, "--images", mine, "--out", tmp_path / "f.safetensors", "--cache", tmp_path / "chosen")
    assert any((tmp_path / "chosen").iterdir())
    assert not (tmp_path / ".protoadapt-cache").exists()
    assert sorted(mine.rglob("*")) == before


def test_skipped_pictures_and_lost_classes_are_said(mine: Path, model: Path, tmp_path: Path) -> None:
    for file in (mine / "kind1" / "kind1_000.png", *(mine / "kind3").iterdir()):
        file.write_bytes(b"broken")
    done = run("extract", model, "--images", mine, "--out", tmp_path / "f.safetensors", "--skip-corrupt")
    assert done.stdout.startswith("20 rows × 64 of 7 classes")
    assert (
        "4 of 24 pictures of the split all cannot be read and are left out, such as kind1/kind1_000.png (it is"
        in done.stderr
    )
    assert "no picture is left of kind3\n" in done.stderr


def test_a_class_without_a_known_suffix_is_refused_and_other_files_are_counted(mine, model, tmp_path) -> None:
    (mine / "notes").write_text("of no class")
    (mine / "kind2" / "a.jxl").touch()
    words = ("extract", model, "--images", mine, "--out", tmp_path / "f.safetensors")
    with pytest.warns(UserWarning, match=r"mine has 1 file without the suffix of a picture: 1 \.jxl"):
        answered(*words)
    for file in (mine / "kind3").iterdir():
        file.rename(file.with_suffix(".jxl"))
    said = "kind3' (3 files without the suffix of a picture: 3 .jxl): add some, or move it away"
    assert said in refused(*words)


def test_a_result_names_ones_own_pictures_and_their_views(mine: Path, model: Path, tmp_path: Path) -> None:
    answered("extract", model, "--images", mine, "--out", tmp_path / "f.safetensors", "--views", 3)
    words = ("--query", 1, "--episodes", 5, "--json", tmp_path / "r.json")
    assert answered("evaluate", tmp_path / "f.safetensors", *words).startswith("mine all: 5-way 1-shot")
    result = json.loads((tmp_path / "r.json").read_text())
    assert "<h1><bdi>Evaluation: mine</bdi></h1>" in evaluation_page([result])
    assert embedding(result).endswith("views 3")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--images", ".", "--dataset", "cub"), "--dataset and --images are given together"),
        (("--images", ".", "--manifest", "m.jsonl"), "--images and --manifest are given together"),
        ((), "no pictures are given: give one of"),
        (("--images", ".", "--split", "val", "--data", "."), "--split and --data have no effect with --images"),
        (("--images", ".", "--shard", "1/2"), "--shard has no effect with --images"),
        (("--images", ".", "--engine", "foo", "--workers", 2), "--engine and --workers have no effect with"),
        (("--manifest", "m.jsonl", "--maps", "--skip-corrupt"), "--maps and --skip-corrupt have no effect with"),
    ],
)
def test_options_that_do_not_go_together_are_named(words, said, tmp_path: Path) -> None:
    assert said in refused("extract", "lite0", "--out", tmp_path / "f.safetensors", *words)


def test_novel_classes_alone_are_enough(model: Path, tmp_path: Path) -> None:
    """Where there are no base classes the features have no base mean."""
    class_folders(tmp_path / "data" / "novel", ["kind0", "kind1"], 3)
    words = ("extract", model, "--dataset", "folder", "--data", tmp_path / "data", "--out", tmp_path / "f.safetensors")
    answered(*words, "--split", "novel")
    table = load_features(tmp_path / "f.safetensors")
    assert (len(table.features), table.base_mean) == (6, None)
    class_folders(tmp_path / "data" / "base", ["kind2", "kind3"], 3)
    answered(*words)
    assert load_features(tmp_path / "f.safetensors").base_mean is not None


def test_data_checks_the_dataset_that_is_named(tmp_path: Path) -> None:
    class_folders(tmp_path / "novel", ["kind0", "kind1"], 3)
    done = run("data", "--dataset", "folder", "--data", tmp_path)
    assert (done.returncode, "novel: 2 classes, 6 pictures" in done.stdout) == (1, True), "base classes are missing"
