"""Feature files: both formats, and every way of being broken."""

import re
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
import torch
from helpers.evil import Evil

from benchmarks.synthetic import synthetic_features
from protoadapt import UserError, load_features, save_features
from protoadapt.core import features
from protoadapt.core.features import with_base, within_class_covariance

TABLE = synthetic_features(classes=4, rows=10, dim=6)


def test_safetensors_come_back_whole(tmp_path):
    names = tuple(f"a/{row}\udcff.jpg" for row in range(len(TABLE.labels)))
    save_features(tmp_path / "deep" / "f.safetensors", replace(TABLE, names=names))
    back = load_features(tmp_path / "deep" / "f.safetensors")
    assert torch.equal(back.features, TABLE.features)
    assert torch.equal(back.labels, TABLE.labels)
    assert torch.equal(back.base_mean, TABLE.base_mean)
    assert back.metadata == {"dataset": "synthetic clouds"}
    assert (back.hash, back.names) == (TABLE.hash, names)
    assert [p.name for p in (tmp_path / "deep").iterdir()] == ["f.safetensors"]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", ">f4"])
def test_npz_of_any_float_type(tmp_path, dtype):
    np.savez(
        tmp_path / "f.npz", features=TABLE.features.numpy().astype(dtype), labels=TABLE.labels.numpy().astype(">i4")
    )
    back = load_features(tmp_path / "f.npz")
    assert back.features.dtype == (torch.float64 if dtype == "float64" else torch.float32)
    torch.testing.assert_close(back.features.float(), TABLE.features, atol=1e-2, rtol=1e-3)
    assert back.base_mean is None


def test_the_base_mean_is_the_mean_of_the_base_rows(tmp_path):
    save_features(tmp_path / "b.safetensors", TABLE)
    made = with_base(TABLE, tmp_path / "b.safetensors")
    torch.testing.assert_close(made.base_mean, TABLE.features.mean(0))
    torch.testing.assert_close(made.base_covariance, within_class_covariance(TABLE.features, TABLE.labels))
    save_features(tmp_path / "again.safetensors", made)
    torch.testing.assert_close(load_features(tmp_path / "again.safetensors").base_covariance, made.base_covariance)
    about = {"weights": "a", "views": 1, "crop": "none"}
    save_features(tmp_path / "b.safetensors", replace(TABLE, metadata=about))
    for stated, words in (
        ({"pooling": 2.0}, "poolings (1.0 and 2.0)"),
        ({"weights": "b"}, "networks (a and b)"),
        ({"views": 8}, "views (1 and 8)"),
        ({"crop": "box"}, "crops (none and box)"),
    ):
        with pytest.raises(UserError, match=re.escape(f"of different {words}: extract both alike")):
            with_base(replace(TABLE, metadata={**about, **stated}), tmp_path / "b.safetensors")
    for same in ({}, {**about, "pooling": 1, "split": "novel"}):
        assert len(with_base(replace(TABLE, metadata=same), tmp_path / "b.safetensors").base_mean) == 6


def test_rows_without_a_label_are_no_base_class(tmp_path):
    labels = TABLE.labels.clone()
    labels[::2] = -1
    rows = TABLE.features
    centred = torch.nn.functional.normalize(rows - rows.mean(0), dim=1)
    each = [np.cov(centred[labels == c].numpy().T, bias=True) for c in labels[labels >= 0].unique()]
    norms = [np.linalg.norm(one) for one in each]
    expected = np.mean([one / norm for one, norm in zip(each, norms)], 0) * np.mean(norms)
    np.testing.assert_allclose(within_class_covariance(rows, labels), expected, atol=1e-6)
    save_features(tmp_path / "b.safetensors", replace(TABLE, labels=torch.full_like(labels, -1)))
    with pytest.raises(UserError, match="has no labelled rows"):
        with_base(TABLE, tmp_path / "b.safetensors")


def test_every_cut_of_a_file_is_refused(tmp_path):
    whole = tmp_path / "f.safetensors"
    save_features(whole, TABLE)
    np.savez(tmp_path / "f.npz", features=TABLE.features.numpy(), labels=TABLE.labels.numpy())
    for name in ("f.safetensors", "f.npz"):
        content = (tmp_path / name).read_bytes()
        for size in (0, 1, 8, len(content) // 2, len(content) - 1):
            cut = tmp_path / f"cut{name[1:]}"
            cut.write_bytes(content[:size])
            with pytest.raises(UserError, match="truncated"):
                load_features(cut)


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        (
            {"features": np.array([Evil(pytest.fail, "it ran")], dtype=object), "labels": [0]},
            ".*Object arrays cannot be loaded",
        ),
        ({"features": TABLE.features}, "it has no array 'labels'"),
        ({"features": np.full((3, 2), np.nan), "labels": [0, 0, 0]}, "3 feature rows hold NaN"),
        ({"features": np.zeros((0, 2)), "labels": np.zeros(0, int)}, "it has no rows"),
        ({"features": [["a"]], "labels": [0]}, "features are no array of real numbers"),
        ({"features": [[1.0]], "labels": [0], "base_mean": [1j]}, "base_mean are no array of real numbers"),
        *(({"features": [[1.0]], "labels": [n]}, ".* not all whole numbers") for n in (0.5, np.nan, np.inf, 1e300)),
    ],
)
def test_bad_arrays_are_named(tmp_path, arrays, words):
    np.savez(tmp_path / "f.npz", **arrays)
    with pytest.raises(UserError, match=rf"^'?f\.npz'?:? {words}"):
        load_features(tmp_path / "f.npz")


def test_names_that_a_file_gives_can_be_printed(tmp_path):
    stated = {"dataset": "a\ud800\x1b[2J\u202eb", "split": "x" * 10**6, "trained_on": None, "class_names": ["ж"]}
    save_features(tmp_path / "f.safetensors", replace(TABLE, metadata=stated))
    back = load_features(tmp_path / "f.safetensors").metadata
    assert back["dataset"] == r"a?\x1b[2J\u202eb"
    assert len(back["split"]) == 200
    assert (back["trained_on"], back["class_names"]) == (None, ["ж"])


def test_class_names_as_labels_are_numbered_and_kept(tmp_path):
    names = np.array(["wren", "owl", "", "jay"])[TABLE.labels.numpy()]
    np.savez(tmp_path / "f.npz", features=TABLE.features.numpy(), labels=names)
    back = load_features(tmp_path / "f.npz")
    assert back.metadata == {"class_names": ["jay", "owl", "wren"]}
    assert torch.equal(back.labels, torch.tensor([2, 1, -1, 0])[TABLE.labels])
    save_features(tmp_path / "f.safetensors", back)
    assert load_features(tmp_path / "f.safetensors").metadata == back.metadata


def test_a_small_file_that_unpacks_to_gigabytes_is_refused_before_it_does(tmp_path, monkeypatch):
    """Zeros pack to a thousandth; tracemalloc counts the memory taken for them. The limit is lowered to save time."""
    assert features.UNPACKED == 2**30
    monkeypatch.setattr(features, "UNPACKED", 2**24)
    np.savez_compressed(
        tmp_path / "f.npz", features=np.zeros((2**12, 2**11 + 2**9), np.float32), labels=np.zeros(2**12)
    )
    tracemalloc.start()
    with pytest.raises(UserError, match=r"f\.npz: it unpacks to 0\.0 GiB: write it with np.savez"):
        load_features(tmp_path / "f.npz")
    assert tracemalloc.get_traced_memory()[1] < 2**22
    tracemalloc.stop()
