"""Labels of partly labelled data: which rows have one, and folds that test only those."""

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from protoadapt.core.arrays import refuse_mask
from protoadapt.core.errors import UserError


class LabelledKFold(BaseCrossValidator):
    """Cross-validation folds for partly labelled data: only labelled rows are tested, all unlabelled rows are in every
    training fold.

    Each class's rows are dealt out in turn, so folds are stratified and, as a class's only labelled row is never
    tested, no class is missing from a training fold. Use it as `cv` of GridSearchCV or cross_val_score.
    """

    def __init__(self, n_splits: int = 5, *, shuffle: bool = False, random_state: Any = None):
        self.n_splits = n_splits
        self.shuffle = shuffle
        self.random_state = random_state

    def get_n_splits(self, X=None, y=None, groups=None) -> int:
        return self.n_splits

    def _iter_test_indices(self, X=None, y=None, groups=None) -> Iterator[np.ndarray]:
        _, codes = encode(y)
        order = np.flatnonzero(codes >= 0)
        order = order[np.bincount(codes[order])[codes[order]] > 1]
        if not 2 <= self.n_splits <= len(order):
            raise UserError(
                f"n_splits is {self.n_splits}: it must be 2 or more, and at most the {len(order)} labelled rows of "
                f"classes with two or more of them"
            )
        if self.shuffle:
            order = check_random_state(self.random_state).permutation(order)
        order = order[np.argsort(codes[order], kind="stable")]
        for fold in range(self.n_splits):
            yield np.sort(order[fold :: self.n_splits])


def warn_of_one_class(y) -> None:
    """Warns where y holds the numbers -1 and 1 only: many use those for two classes."""
    values = np.asarray(y)
    if values.dtype.kind in "if" and set(np.unique(values).tolist()) == {-1, 1}:
        warnings.warn(
            "y holds only -1 and 1, and -1 marks rows without a label, so there is one class to learn: if -1 is a "
            "class, name the classes 0 and 1 or by words",
            stacklevel=4,
        )


def encode(y) -> tuple[np.ndarray, np.ndarray]:
    """Sorted classes, and for each row its position among them, or -1 where y is -1, None, NaN or NaT."""
    refuse_mask(y, "labels y")
    if isinstance(y, (list, tuple)):
        y = np.array(y, dtype=object)  # numpy would turn NaN beside names into the name "nan"
    y = column_or_1d(y, warn=True)
    if y.dtype == object:
        marks = ("-1", "-1.0", "None", "nan", "<NA>", "NaT")  # as printed, but for names
        labelled = np.array([isinstance(v, str) or str(v) not in marks for v in y], bool)
    elif y.dtype.kind in "iuf":
        labelled = ~((y == -1) | np.isnan(y))
    elif y.dtype.kind in "mM":
        labelled = ~np.isnat(y)
    else:
        labelled = np.ones(len(y), bool)
        if y.dtype.kind == "U" and np.isin(y, ["-1", "nan"]).any():
            raise UserError(
                "y holds the text '-1' or 'nan', which numpy makes of -1 and NaN beside names: mark rows "
                "without a label by None, or build y with dtype=object if that is a name"
            )
    known = y[labelled]
    if not len(known):
        raise UserError("no row of y has a label: give each class at least one, and -1 to the rows without")
    if y.dtype == object:
        if len({isinstance(v, str) for v in known}) > 1:
            raise UserError("y mixes names with other labels: give all labels the same type")
        known = np.array(known.tolist())
    codes = np.full(len(y), -1)
    classes, codes[labelled] = np.unique(known, return_inverse=True)
    check_classification_targets(np.tile(classes, 2))  # twice: one row per class would be taken for a regression
    return classes, codes
