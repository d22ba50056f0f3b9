"""Labels of partly labelled data: how a missing one is marked, and folds that test the others."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protoadapt.core.errors import UserError
from protoadapt.core.partial_labels import encode, labelled_folds

Y = np.array([2, 0, -1, 1, -1, 0])
NUMBERS = Y.astype(object)
NAMES = np.array(["cat", "dog", "emu", None])[Y]
DAYS = np.where(Y < 0, np.datetime64("NaT"), np.datetime64("2024-01-01", "us") + Y.astype("timedelta64[D]"))


def marked(values, mark):
    return np.where(Y < 0, mark, values)


@pytest.mark.parametrize(
    "labels",
    [
        Y.tolist(),
        Y.astype(float),
        Y.astype(np.int8),
        marked(Y, np.nan),
        marked(NUMBERS, None),
        pd.Series(marked(NUMBERS, None), dtype="Int64"),
        *(marked(NAMES, mark) for mark in (None, np.nan, pd.NaT, -1)),
        marked(NAMES, -1).astype(str),
        marked(NAMES, float("nan")).tolist(),
        *(pd.Series(NAMES, dtype=kind) for kind in (object, "string", "category")),
        pd.Series(DAYS),
    ],
)
def test_labels_of_many_types_are_classes_and_rows_without_one(labels):
    classes, codes = encode(labels)
    assert codes.tolist() == Y.tolist()
    expected = ["cat", "dog", "emu"] if classes.dtype.kind == "U" else [0, 1, 2]
    assert classes.dtype.kind in "Mm" or classes.tolist() == expected


def test_nullable_numbers_come_back_as_they_came():
    for labels in (pd.Series(marked(NUMBERS, None), dtype="Int64"), pd.Series([2, 0, 1], dtype="Int64")):
        assert encode(labels)[0].dtype == np.int64


@settings(max_examples=80, deadline=None)
@given(st.lists(st.integers(-1, 4), min_size=1, max_size=60), st.integers(2, 6))
def test_folds_test_labelled_rows_only_and_train_with_all_others(labels, n_splits):
    y = np.array(labels)
    counts = {c: (y == c).sum() for c in set(labels) - {-1}}
    testable = np.flatnonzero([counts.get(c, 0) > 1 for c in labels])
    if len(testable) < n_splits:
        with pytest.raises(UserError, match=r"n_splits|no row of y"):
            labelled_folds(y, n_splits)
        return
    parts = list(labelled_folds(y, n_splits).split())
    assert len(parts) == n_splits
    assert sorted(np.concatenate([test for _, test in parts])) == testable.tolist()
    for train, test in parts:
        assert sorted([*train, *test]) == list(range(len(y)))
        assert set(np.flatnonzero(y == -1)) <= set(train)
        assert set(y[train]) - {-1} == set(counts)
    for c in counts:
        sizes = [(y[test] == c).sum() for _, test in parts]
        assert max(sizes) - min(sizes) <= 1
