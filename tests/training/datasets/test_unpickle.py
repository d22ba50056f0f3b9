"""Pickles that datasets use are read, whichever Python wrote them; pickles that do something are refused."""

import os
import pickle
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from helpers.evil import Evil

from protoadapt.training.datasets.unpickle import read_pickle


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("key", ["data", b"data"])
def test_python3_pickle(tmp_path: Path, protocol: int, key: str | bytes) -> None:
    array = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    table = {key: array, "order": np.asfortranarray(array), "class_dict": {"n01": [np.int64(3), 4]}, "raw": b"\xff\x00"}
    table |= {
        "truths": np.array([[True], [False]]),
        "words": np.array(["é", "a"]),
        "big-endian": np.arange(3, dtype=">f4"),
    }
    (tmp_path / "a").write_bytes(pickle.dumps(table, protocol))
    got = read_pickle(tmp_path / "a")
    np.testing.assert_array_equal(got["data"], array)
    np.testing.assert_array_equal(got["order"], array)
    assert got["class_dict"] == {"n01": [3, 4]}
    assert got["raw"] == b"\xff\x00"
    for name in ("truths", "words", "big-endian"):
        np.testing.assert_array_equal(got[name], table[name])


def test_values_of_other_types_are_refused_before_numpy_sees_them(tmp_path: Path) -> None:
    """numpy would follow a pointer from the file: an object dtype loses its flag, and `scalar` reads it."""
    objects = b"cnumpy\ndtype\n(S'O8'\nI0\nI1\ntR(I3\nS'|'\nNNNI-1\nI-1\nI0\ntb"
    scalar = b"cnumpy.core.multiarray\nscalar\n(" + objects + b"S'AAAAAAAA'\ntR"
    written = [pickle.dumps({"a": value}, 2) for value in (np.array([{}]), np.zeros(1, "M8[s]"), np.zeros(1, "i4,f4"))]
    for content in (b"(S'a'\n" + scalar + b"d.", *written):
        (tmp_path / "a").write_bytes(content)
        with pytest.raises(ValueError, match="do not trust it"):
            read_pickle(tmp_path / "a")


def test_no_memory_is_taken_that_a_file_does_not_fill(tmp_path: Path) -> None:
    """The unpickler in C makes room for as many remembered objects as the number of one of them says."""
    (tmp_path / "a").write_bytes(b"\x80\x02]r\xff\xff\xff\x00.")
    tracemalloc.start()
    assert read_pickle(tmp_path / "a") == []
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


@pytest.mark.parametrize("protocol", [0, 2, 4])
@pytest.mark.parametrize("call", [(os.system, "touch pwned"), (eval, "open('pwned','w')"), (getattr, "", "join")])
def test_a_pickle_that_calls_something_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: tuple, protocol: int
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").write_bytes(pickle.dumps({"data": Evil(*call)}, protocol))
    with pytest.raises(ValueError, match="do not trust it"):
        read_pickle(tmp_path / "a")
    assert not (tmp_path / "pwned").exists()
