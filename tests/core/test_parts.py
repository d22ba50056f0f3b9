"""A table of parts: what it holds comes back, and what is cut, changed, copied or foreign is found."""

import json
import shutil

import numpy as np
import pytest
import torch
from helpers.parts import MADE, MODEL, write_table

from protoadapt import UserError
from protoadapt.core import parts
from protoadapt.core.parts import Damaged, check_part, open_parts, part_file, read_lists, write_part

DIM = 24


@pytest.fixture
def rows() -> np.ndarray:
    return np.random.default_rng(0).random((50, DIM)).astype(np.float16)


def test_rows_come_back_in_every_pass_without_those_left_out(tmp_path, rows):
    write_table(tmp_path, rows, 16)
    table, read = open_parts(tmp_path), []
    table.check()
    some = parts.PartsTable(table.parts, table.index, {1: np.array([0, 3]), 3: np.array([1])}, read.append)
    for _ in range(2):
        assert np.array_equal(np.concatenate(list(some)), np.delete(rows, [16, 19, 49], 0))
    assert read == [16, 16, 16, 2] * 2
    assert all(part.dtype == np.float16 for part in some)
    assert list(some.each(lambda part, rows: (part.number, len(rows)))) == [(0, 16), (1, 16), (2, 16), (3, 2)]
    assert table.n_rows == 50


def test_pictures_are_found_by_name(tmp_path, rows):
    write_table(tmp_path, rows, 16)
    table = open_parts(tmp_path)
    found = table.find(["2/5.jpg", "no.jpg", "0/0.jpg"])
    assert {name: place[:2] for name, place in found.items()} == {"0/0.jpg": (0, 0), "2/5.jpg": (2, 5)}
    assert np.array_equal(found["2/5.jpg"][2], rows[37])
    assert read_lists(table.parts[3])["names"] == ["3/0.jpg", "3/1.jpg"]


def test_a_part_without_rows_is_a_part(tmp_path):
    record = {"of": "o", "broken": [{"row": 0, "name": "a", "reason": "it is empty"}], **MADE}
    write_part(tmp_path, 0, np.zeros((0, 4)), {"names": [], "numbers": []}, record)
    parts.write_index(tmp_path, {**MADE, "model": MODEL, "root": "", "parts": 1, "pictures": 1})
    assert check_part(tmp_path, 0).shape == (0, 4)
    assert [part.shape for part in open_parts(tmp_path)] == [(0, 4)]


@pytest.mark.parametrize("suffix", [".npy", ".jsonl"])
def test_every_cut_and_every_change_of_a_part_is_found(tmp_path, rows, suffix):
    write_table(tmp_path, rows, 50)
    file = part_file(tmp_path, 0).with_suffix(suffix)
    whole = file.read_bytes()
    for cut in (0, 7, 100, len(whole) // 2, len(whole) - 1):
        file.write_bytes(whole[:cut])
        with pytest.raises(Damaged, match=r"part-000000\.npy is missing or damaged"):
            check_part(tmp_path, 0)
    rng = np.random.default_rng(1)
    for place in rng.integers(len(whole), size=60):
        changed = bytearray(whole)
        changed[place] ^= 1 << int(rng.integers(8))
        file.write_bytes(changed)
        try:  # a space in numpy's header is none of the content
            assert np.array_equal(parts.read_rows(check_part(tmp_path, 0)), rows)
        except Damaged:
            continue
        assert suffix == ".npy"
        assert place < 128


def test_a_missing_cut_or_foreign_part_is_one_sentence(tmp_path, rows):
    write_table(tmp_path, rows, 10)
    path = part_file(tmp_path, 2)
    whole = path.read_bytes()
    path.unlink()
    with pytest.raises(UserError, match=r"part-000002.npy is missing or damaged \(it is not there\): run"):
        open_parts(tmp_path)
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(UserError, match="checksum"):
        open_parts(tmp_path).check()
    rows[23, 2] = np.nan
    write_table(tmp_path, rows, 10)
    with pytest.raises(UserError, match=r"part-000002.* NaN"):
        open_parts(tmp_path).check()
    write_part(tmp_path, 2, rows[:10], {"names": [], "numbers": []}, {"broken": [], **MADE, "weights": "v"})
    with pytest.raises(UserError, match="another model"):
        open_parts(tmp_path)


def test_copied_parts_and_an_edited_index_are_said(tmp_path, rows):
    write_table(tmp_path, rows, 10)
    for suffix in (".npy", ".jsonl"):
        shutil.copy(*(part_file(tmp_path, number).with_suffix(suffix) for number in (0, 1)))
    with pytest.raises(UserError, match="describes another"):
        open_parts(tmp_path)
    write_table(tmp_path, rows, 10)
    index = tmp_path / parts.INDEX
    stated = json.loads(index.read_text())
    no_fit, damaged = "does not fit its files", "damaged .*: remove it and run"
    for lie, words in (
        ({"parts": 4}, no_fit),
        ({"pictures": 49}, no_fit),
        ({"pictures": "9"}, damaged),
        ({"parts": True}, damaged),
        ({"model": None}, damaged),
        ({"root": None}, damaged),
    ):
        index.write_text(json.dumps(stated | lie))
        with pytest.raises(UserError, match=words):
            open_parts(tmp_path)


@pytest.mark.parametrize("lie", [{"part": "0"}, {"broken": 3}, {"shape": 50}, {"shape": [50, DIM + 1]}])
def test_a_part_that_lies_about_itself_is_damaged(tmp_path, rows, lie):
    write_table(tmp_path, rows, 50, **lie)
    with pytest.raises(Damaged):
        check_part(tmp_path, 0)


@pytest.mark.parametrize("way", ["iterated", "threads"])
def test_only_a_few_parts_are_in_memory(way, tmp_path, rows, monkeypatch):
    write_table(tmp_path, np.tile(rows, (8, 1)), 10)
    table, read = open_parts(tmp_path), []
    reading = parts.read_rows
    monkeypatch.setattr(parts, "read_rows", lambda part: read.append(1) or reading(part))
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    walk = iter(table) if way == "iterated" else table.each(lambda part, rows: len(rows))
    for done in range(1, 21):
        next(walk)
        assert len(read) - done <= 10
    walk.close()
    assert torch.get_num_threads() == 2
    torch.set_num_threads(before)
