"""Faults of labelled rows: exact leave-one-out, planted faults, and what must hold of any data."""

import numpy as np
import pytest
from helpers.cases import groups
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Ridge

from protoadapt.labeling.check import RIDGES, find_faults, leave_one_out, near_duplicates, probabilities


def unit(rows):
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


@pytest.mark.parametrize("dim", [6, 60])  # fewer dimensions than rows, and more
def test_leave_one_out_equals_fitting_without_each_row(dim):
    rows, codes = groups([9, 12, 7], 0.5, dim, seed=3)
    labels = np.eye(3)[codes]

    def answer(i, ridge):
        model = Ridge(ridge).fit(np.delete(rows, i, 0).astype(float), np.delete(labels, i, 0))
        return model.predict(rows[i : i + 1])[0]

    slow = {}
    for ridge in RIDGES:
        answers = np.stack([answer(i, ridge) for i in range(len(rows))])
        slow[((answers - labels) ** 2).mean()] = answers
    np.testing.assert_allclose(leave_one_out(rows, codes), slow[min(slow)], atol=2e-4)


def test_probabilities_have_the_temperature_of_the_labels():
    rng = np.random.default_rng(0)
    logits = 3 * rng.normal(size=(4000, 4))
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    codes = (p.cumsum(1) > rng.random((4000, 1))).argmax(1)
    np.testing.assert_allclose(probabilities(logits.astype(np.float32) / 7, codes), p, atol=0.03)


def test_planted_faults_are_found_and_nothing_else():
    rows, codes = groups([20, 20, 20], 0.2)
    rng = np.random.default_rng(1)
    copy = unit(rows[[5, 5]] + 0.005 * rng.normal(size=(2, 24)))
    stray = unit(np.eye(24)[[20]])
    rows, codes = np.concatenate([rows, copy, stray]), np.append(codes, [0, 1, 2])  # one copy has another label
    codes[[2, 45]] = 2, 0
    faults = find_faults(rows, codes)
    assert {(row, likely) for row, likely, *_ in faults.suspects if row < 60} == {(2, 0), (45, 2)}
    assert {row for row, *_ in faults.suspects} <= {2, 45, 61, 62}
    assert faults.duplicates == [[5, 60, 61]]
    assert [row for row, _ in faults.outliers] == [62]
    assert [one[2] for one in faults.suspects] == sorted(one[2] for one in faults.suspects)


def test_confused_classes_are_named_by_pairs():
    rows, codes = groups([20, 20, 20, 20])
    rng = np.random.default_rng(0)
    mixed = codes < 2  # nobody can tell these two apart
    rows[mixed] = unit(np.eye(24)[np.zeros(40, int)] + 0.15 * rng.normal(size=(40, 24)))
    ((pair, members, share),) = find_faults(rows, codes).confused
    assert pair == (0, 1)
    assert share == len(members) / 40 > 0.25
    p = probabilities(leave_one_out(rows.astype(np.float32), codes), codes)
    own = p[members, codes[members]]
    assert set(members) == {i for i in range(40) if p[i].argmax() == 1 - codes[i]}
    assert own.tolist() == sorted(own)


def test_blocks_change_nothing(monkeypatch):
    rows, _ = groups([30, 30], 0.05)
    whole = near_duplicates(rows)
    monkeypatch.setattr("protoadapt.labeling.check._MEGABYTES", 0.001)
    parts = near_duplicates(rows)
    assert parts[0] == whole[0]
    np.testing.assert_allclose(parts[1], whole[1], atol=1e-6)
    cosine = rows @ rows.T - 2 * np.eye(60)
    np.testing.assert_allclose(whole[1], np.sort(cosine, 1)[:, -5:].mean(1), atol=1e-6)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 30), st.integers(1, 6), st.integers(0, 2**20))
def test_any_data_has_an_answer(n, n_classes, seed):
    rng = np.random.default_rng(seed)
    rows = rng.integers(-1, 2, (n, 3)).astype(np.float32)  # many are equal, some are zero
    codes = rng.integers(-1, n_classes, n)
    faults = find_faults(rows, codes)
    assert all(codes[row] >= 0 and likely != codes[row] and likely in codes for row, likely, *_ in faults.suspects)
    assert all(np.isfinite(own) and own <= best <= 1 for *_, own, best in faults.suspects)
    members = [row for group in faults.duplicates for row in group]
    assert len(members) == len(set(members)) <= n
    assert all(len(group) > 1 for group in faults.duplicates)
    assert all(0 < share <= 1 for *_, share in faults.confused)
