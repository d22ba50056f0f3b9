"""The check of a download says what is there, what is missing, and where to get it."""

from dataclasses import replace
from pathlib import Path

import pytest
from helpers.small_pictures import class_folders

from protoadapt.core.errors import UserError
from protoadapt.training.datasets import DATASETS, check_dataset, class_list


def test_nothing_there(tmp_path: Path) -> None:
    report = check_dataset("tiered-imagenet", tmp_path)
    assert not report.complete
    for said in ("No pictures of it were found", "n01530575", "image-net.org"):
        assert said in report.text
    assert "--download" in check_dataset("cub", tmp_path).text
    with pytest.raises(UserError, match=r"there is no folder .*missing --download`$"):
        check_dataset("cub", tmp_path / "missing")
    with pytest.raises(UserError, match="needs a data folder"):
        check_dataset("cub")


def test_complete_and_each_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = replace(DATASETS["cifar-fs"], images={"base": 128, "val": 32, "novel": 40})
    monkeypatch.setitem(DATASETS, "cifar-fs", small)
    for split in ("base", "val", "novel"):
        class_folders(tmp_path / "cifar100" / "data", class_list("cifar-fs", split), 2)
    report = check_dataset("cifar-fs", tmp_path)
    assert report.complete
    assert "base: 64 of 64 classes, 128 of 128 pictures" in report.text
    gone, short = class_list("cifar-fs", "val")[:2]
    (tmp_path / "cifar100" / "data" / gone).rename(tmp_path / "elsewhere")
    next((tmp_path / "cifar100" / "data" / short).iterdir()).unlink()
    report = check_dataset("cifar-fs", tmp_path)
    assert not report.complete
    assert "val: 15 of 16 classes, 29 of 32 pictures" in report.text
    assert f"missing classes: {gone}" in report.text
    assert "32 pictures are expected, but there are 29" in report.text
    assert "cs.toronto.edu" in report.text


def test_a_harmful_pickle_is_named(tmp_path: Path) -> None:
    (tmp_path / "mini-imagenet-cache-train.pkl").write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    report = check_dataset("mini-imagenet", tmp_path)
    assert not report.complete
    assert "do not trust it" in report.text


def test_own_folder_and_glyphs(mine: Path, tmp_path: Path) -> None:
    report = check_dataset("folder", mine)
    assert report.complete
    assert "base: 4 classes, 12 pictures" in report.text
    (tmp_path / "empty").mkdir()
    assert not check_dataset("folder", tmp_path / "empty").complete
    assert check_dataset("glyphs").complete
