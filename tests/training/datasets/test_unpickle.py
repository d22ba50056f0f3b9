"""Pickles that datasets use are read, whichever Python wrote them; pickles that do something are refused."""

import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from protoadapt.core.errors import UserError
from protoadapt.training.datasets.unpickle import read_pickled_table


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("key", ["data", b"data"])
def test_python3_pickle(tmp_path: Path, protocol: int, key: str | bytes) -> None:
    array = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    table = {key: array, "order": np.asfortranarray(array), "class_dict": {"n01": [np.int64(3), 4]}, "raw": b"\xff\x00"}
    (tmp_path / "a").write_bytes(pickle.dumps(table, protocol))
    got = read_pickled_table(tmp_path / "a")
    np.testing.assert_array_equal(got["data"], array)
    np.testing.assert_array_equal(got["order"], array)
    assert got["class_dict"] == {"n01": [3, 4]}
    assert got["raw"] == b"\xff\x00"


class Evil:
    def __init__(self, call: tuple) -> None:
        self.call = call

    def __reduce__(self) -> tuple:
        return self.call


@pytest.mark.parametrize("protocol", [0, 2, 4])
@pytest.mark.parametrize(
    "call", [(os.system, ("touch pwned",)), (eval, ("open('pwned','w')",)), (getattr, (os, "system"))]
)
def test_a_pickle_that_calls_something_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: tuple, protocol: int
) -> None:
    monkeypatch.chdir(tmp_path)
    evil = {"data": Evil(call if call[0] is not getattr else (getattr, ("", "join")))}
    (tmp_path / "a").write_bytes(pickle.dumps(evil, protocol))
    with pytest.raises(UserError, match="do not trust it"):
        read_pickled_table(tmp_path / "a")
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize(
    "content", [b"", b"not a pickle", pickle.dumps([1, 2]), pickle.dumps({"a": np.zeros(99)})[:-40]]
)
def test_what_is_no_table_is_an_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(UserError, match="cannot be read as a pickled dataset"):
        read_pickled_table(tmp_path / "a")
