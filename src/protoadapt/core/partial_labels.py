"""Labels of partly labelled data: which rows have one, and folds that test only those."""

import warnings

import numpy as np
from sklearn.model_selection import PredefinedSplit
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from protoadapt.core.arrays import refuse_mask
from protoadapt.core.errors import UserError

MARKS = ("-1", "-1.0", "None", "nan", "NaT", "<NA>")
"""A row without a label as text: by numbers, Python, numpy and pandas. A class cannot have such a name."""


def labelled_folds(y, n_splits: int = 5) -> PredefinedSplit:
    """Cross-validation folds for partly labelled data: only labelled rows are tested, all unlabelled rows are in every
    training fold.

    Each class's rows are dealt out in turn, so folds are stratified and, as a class's only labelled row is never
    tested, no class is missing from a training fold.

    Parameters
    ----------
    y : array (n,)
        Labels; −1, None or NaN for none.
    n_splits : int, default 5

    Examples
    --------
    >>> GridSearchCV(CIPAClassifier(), {"tau": [5, 10]}, cv=labelled_folds(y, 3)).fit(X, y)     # doctest: +SKIP
    """
    _, codes = encode(y)
    order = np.argsort(codes, kind="stable")
    order = order[(codes[order] >= 0) & (np.bincount(codes + 1)[codes[order] + 1] > 1)]
    if not 2 <= n_splits <= len(order):
        raise UserError(
            f"n_splits is {n_splits}: it must be 2 or more, and at most the {len(order)} labelled rows of classes with "
            f"two or more of them"
        )
    fold = np.full(len(codes), -1)
    fold[order] = np.arange(len(order)) % n_splits
    return PredefinedSplit(fold)


def warn_of_one_class(y) -> None:
    """Warns where y holds the numbers -1 and 1 only: many use those for two classes."""
    values = np.asarray(y)
    if values.dtype.kind in "if" and set(np.unique(values).tolist()) == {-1, 1}:
        warnings.warn(
            "y holds only -1 and 1, and -1 marks rows without a label, so there is one class to learn: if -1 is a "
            "class, name the classes 0 and 1 or by words",
            stacklevel=4,
        )


def warn_of_ordinary_folds(without_label: int) -> None:
    """Warns where rows without a label are to be tested, as ordinary folds of cross-validation do."""
    if without_label:
        warnings.warn(
            f"{without_label:,} of the rows to be tested have no label and are not counted; ordinary folds also keep "
            f"them from training, where they help: cross-validate with cv=protoadapt.labelled_folds(y)",
            stacklevel=3,
        )


def encode(y) -> tuple[np.ndarray, np.ndarray]:
    """Sorted classes, and for each row its position among them, or -1 where y is -1, None, NaN or one of MARKS."""
    refuse_mask(y, "labels y")
    # As objects: numpy would turn numbers beside names into names, and pandas' nullable integers into floats.
    nullable = hasattr(getattr(y, "dtype", None), "na_value")
    y = column_or_1d(np.array(y, dtype=object) if isinstance(y, (list, tuple)) or nullable else y, warn=True)
    labelled = ~((y == -1) | np.isnan(y)) if y.dtype.kind in "iuf" else ~np.isin(y.astype(str), MARKS)
    known = y[labelled]
    if not len(known):
        raise UserError("no row of y has a label: give each class at least one, and -1 to the rows without")
    codes = np.full(len(y), -1)
    classes, codes[labelled] = np.unique(np.array(known.tolist()) if y.dtype == object else known, return_inverse=True)
    check_classification_targets(np.tile(classes, 2))  # twice: one row per class would be taken for a regression
    return classes, codes
