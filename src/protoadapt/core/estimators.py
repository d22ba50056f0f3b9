"""scikit-learn classifiers over `methods`: a few labelled rows, many unlabelled ones, any features.

    model = CIPAClassifier().fit(X, y)      # y is -1 (None or NaN beside names) where a row has no label
    model.transduction_                     # a label for every fitted row
    model.predict(new)                      # one row or many, each answered alone from what was fitted

All of them fit one state: rows are raised to a power and centred by `center_` as the method asks, and answered by
softmax(similarity to `prototypes_` + `class_bias_`). So a new row needs no company, and a fitted unlabelled row gets
its `transduction_` again. A method joins by saying how it calibrates and adapts (`_how`); one whose centre or class
sizes move on the way replaces `_learn`.

Memory beyond X is bounded by a chunk of rows and some fifty bytes a row, however many rows there are.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from protoadapt.core.arrays import check_size, refuse_mask, usable
from protoadapt.core.errors import UserError
from protoadapt.core.methods.adaptation import Adaptation
from protoadapt.core.methods.normalize import power_transform
from protoadapt.core.methods.protonet import rule, scale
from protoadapt.core.methods.row_learner import (
    PrototypeModel,
    Support,
    bapa_steps,
    prototype_steps,
    two_best,
)
from protoadapt.core.methods.row_source import DenseBlock, MemorySource, RowSource, Source, block_size
from protoadapt.core.partial_labels import encode
from protoadapt.core.untrusted import finite

FLOATS = [np.float32, np.float64]
"""Computed with as they come; every other type becomes the first."""

LIMITS = {"sigma": (0, 1), "step": (0, 1), "kappa": (0, 1e6), "beta": (1e-3, 1e3)}
LIMITS |= dict.fromkeys(("tau", "lam", "k_s"), (1e-6, 1e6))
"""Of settings that are numbers: beyond them there is nothing but NaN, or one answer for all rows."""


class PrototypeClassifier(ClassifierMixin, BaseEstimator, ABC):
    """What the classifiers share; not for use itself.

    Attributes after `fit` (n rows, W classes, D features):

    classes_ (W)            the labels, sorted
    transduction_ (n)       a label for every fitted row: its own if it had one, else what `predict` says
    two_best_ (n, 2)        positions in classes_ of the two likeliest classes of every fitted row, as predicted
    two_best_proba_ (n, 2)  their probabilities; full distributions are what `predict_proba` is for
    prototypes_ (W, D)      among the calibrated rows
    center_ (D)             taken off a row (after the power) before it is answered
    class_bias_ (W)         added to the logits; zero but for BAPA and PT+MAP
    n_features_in_, feature_names_in_ (for data frames)
    """

    device: str
    power, beta = "off", 0.5  # of methods that take raw features

    @abstractmethod
    def _how(self) -> Adaptation:
        """The method's own steps."""

    def check_settings(self) -> None:
        """Raises UserError."""
        usual = type(self)().get_params()
        for name, value in self.get_params().items():
            low, high = LIMITS.get(name, (0, 0))
            if name in LIMITS and not finite(value, low, high) and not (value is None and usual[name] is None):
                raise UserError(f"{name} is {value!r}: it must be a number from {low:g} to {high:g}")
            if name == "class_prior" and value is not None:
                shares = value.tolist() if hasattr(value, "tolist") else value
                if not isinstance(shares, (list, tuple)) or not all(finite(share, 1e-9, 1e9) for share in shares):
                    raise UserError(
                        f"class_prior is {value!r}: give a positive share for each class, such as [0.3, 0.7]"
                    )
            if isinstance(usual[name], str) and name != "device" and not isinstance(value, str):
                raise UserError(f"{name} is {value!r}: it must be a word, such as {usual[name]}")
            if isinstance(usual[name], bool) and not isinstance(value, (bool, np.bool_)):
                raise UserError(f"{name} is {value!r}: it must be true or false")
        self._how()
        self._power(torch.empty(0, 1))  # both refuse words that they do not know

    def _power(self, rows: Tensor) -> Tensor:
        return rows if self.power == "off" else power_transform(rows, self.beta, self.power)

    def fit(self, X, y):
        """X (n, D), y (n): labels, and -1, None or NaN for rows without one. Classes may have unequal numbers."""
        if y is None:
            raise UserError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        self.check_settings()
        refuse_mask(X, "rows of X")
        X = validate_data(self, X, dtype=FLOATS)
        check_size(X, X.dtype.itemsize)
        check_consistent_length(X, y)
        self.classes_, codes = encode(y)
        labelled, rest = np.flatnonzero(codes >= 0), np.flatnonzero(codes < 0)
        labels = torch.from_numpy(codes[labelled]).to(usable(self.device))
        self._learn(self._source(X, labelled, X.dtype), labels, self._source(X, rest, X.dtype))
        self.two_best_, self.two_best_proba_ = self._two_best(X)
        self.transduction_ = self.classes_[np.where(codes < 0, self.two_best_[:, 0], codes)]
        return self

    def fit_rows(self, support, labels, source: RowSource):
        """Fits from labelled rows and a row source that holds the unlabelled rows, in memory or elsewhere.

        Afterwards `classes_`, `center_`, `prototypes_`, `class_bias_` and `n_features_in_` are set, and `predict`,
        `predict_proba` and `model` answer; there is no `transduction_`, as rows of a source are never held.

        Parameters
        ----------
        support : (S, D) array of labelled rows, features as they were extracted (the power transform is applied here)
        labels : (S) their labels, each class at least once
        source : the unlabelled rows, see `core.methods.row_source.RowSource`; `vision.shards.shard_source.ShardSource`
            reads them from a feature folder

        Returns
        -------
        self

        >>> fitted = BAPAClassifier().fit_rows(support, labels, ShardSource(rows))       # doctest: +SKIP
        >>> fitted.model.logits(block)         # (W, n) for a power-transformed block    # doctest: +SKIP
        """
        self.check_settings()
        support = validate_data(self, support, dtype=FLOATS)
        check_size(support, support.dtype.itemsize)
        check_consistent_length(support, labels)
        self.classes_, codes = encode(labels)
        if (codes < 0).any():
            raise UserError("fit_rows takes labelled rows only: put rows without a label into the source")
        labelled = self._source(support, np.arange(len(support)), support.dtype)
        self._learn(labelled, torch.from_numpy(codes).to(usable(self.device)), source)
        return self

    @property
    def model(self) -> PrototypeModel:
        """The fitted state as tensors on the estimator's device; answers blocks of power-transformed rows."""
        how, fitted = self._how(), (self.center_, self.prototypes_, self.class_bias_)
        center, prototypes, bias = (torch.from_numpy(part).to(usable(self.device)) for part in fitted)
        rule = "cosine" if how.rule == "cosine" else "euclid"  # a transport plan is distances and biases
        return PrototypeModel(center, prototypes, bias, rule, how.scale, how.l2)

    def predict(self, X) -> np.ndarray:
        """(n): the likeliest class of each row; the first of those that tie."""
        best, _ = self._two_best(self._checked(X))
        return self.classes_[best[:, 0]]

    def predict_proba(self, X) -> np.ndarray:
        """(n, W), in the order of classes_."""
        X = self._checked(X)
        answer = np.empty((len(X), len(self.classes_)), self.prototypes_.dtype)
        for rows, scores in self._logits(X):
            answer[rows] = scores.softmax(1).cpu().numpy()
        return answer

    def _learn(self, support: MemorySource, labels: Tensor, source: RowSource) -> None:
        dim = support.table.shape[1]
        labelled = Support(support.powered_blocks(self.beta, self.power), labels, len(self.classes_), dim)
        *_, model = self._steps(labelled, source.powered(self.beta, self.power))
        fitted = (part.cpu().numpy() for part in (model.center, model.prototypes, model.bias))
        self.center_, self.prototypes_, self.class_bias_ = (part.astype(support.table.dtype) for part in fitted)

    def _steps(self, support: Support, source: Source) -> Iterator[PrototypeModel]:
        """The models after 0, 1, … n_iter steps."""
        return prototype_steps(support, source, self._how())

    def _source(self, X: np.ndarray, index: np.ndarray, dtype: np.dtype) -> MemorySource:
        size = block_size(len(self.classes_), X.shape[1])
        return MemorySource(X, index, size, getattr(torch, dtype.name), self.device)

    def _checked(self, X) -> np.ndarray:
        check_is_fitted(self)
        refuse_mask(X, "rows of X")
        X = validate_data(self, X, dtype=FLOATS, reset=False)
        check_size(X, self.center_.dtype.itemsize)  # rows are computed with as those that were fitted
        return X

    def _logits(self, X: np.ndarray) -> Iterator[tuple[slice, Tensor]]:
        """Logits, chunk by chunk, in the type of what was fitted."""
        model, start = self.model, 0
        for rows in self._source(X, np.arange(len(X)), self.center_.dtype):
            yield slice(start, start + len(rows)), model.logits(DenseBlock(self._power(rows))).mT
            start += len(rows)

    def _two_best(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        n_best = min(2, len(self.classes_))
        best = np.empty((len(X), n_best), np.int32)
        p_best = np.empty((len(X), n_best), self.prototypes_.dtype)
        for rows, scores in self._logits(X):
            best[rows], p_best[rows] = (part.cpu().numpy() for part in two_best(scores))
        return best, p_best


class BAPAClassifier(PrototypeClassifier):
    """Balance-Agnostic Prototype Adaptation, ours; arguments as in `methods.bapa`. The one to begin with.

    Unlabelled rows help whatever classes they are of: many or few, mixed, or all of one class. `center_` counts rows
    of large classes less, and `class_bias_` holds the logarithm of the classes' estimated sizes, as far as those are
    more than chance. Without unlabelled rows it is the nearest class mean, centred by the support and shrunk by kappa.
    """

    def __init__(
        self,
        *,
        n_iter: int = 20,
        sigma: float = 0.2,
        lam: float = 10.0,
        kappa: float = 3.0,
        k_s: float = 10.0,
        beta: float = 0.5,
        power: str = "auto",
        device: str = "cpu",
    ):
        self.n_iter = n_iter
        self.sigma = sigma
        self.lam = lam
        self.kappa = kappa
        self.k_s = k_s
        self.beta = beta
        self.power = power
        self.device = device

    def _how(self) -> Adaptation:
        return Adaptation("euclid", self.lam, self.n_iter, self.sigma, l2=True)

    def _steps(self, support: Support, source: Source) -> Iterator[PrototypeModel]:
        return bapa_steps(support, source, self._how(), self.kappa, self.k_s)


class CIPAClassifier(PrototypeClassifier):
    """Calibrated Iterative Prototype Adaptation (Ye et al., 2020); arguments as in `methods.cipa`.

    With `center="separate"`, the paper's, labelled rows are centred by their mean and all others by the mean of the
    unlabelled rows at fit. So those must be many and of mixed classes: with very few of them, or one class alone, CIPA
    answers at chance. Without any it is ProtoNet, centred by the support.
    """

    def __init__(
        self,
        *,
        n_iter: int = 20,
        sigma: float = 0.2,
        tau: float = 10.0,
        beta: float = 0.5,
        power: str = "auto",
        center: str = "separate",
        l2: bool = True,
        device: str = "cpu",
    ):
        self.n_iter = n_iter
        self.sigma = sigma
        self.tau = tau
        self.beta = beta
        self.power = power
        self.center = center
        self.l2 = l2
        self.device = device

    def _how(self) -> Adaptation:
        return Adaptation("cosine", self.tau, self.n_iter, self.sigma, self.center, self.l2)


class ProtoNetClassifier(PrototypeClassifier):
    """The nearest class mean of raw features (Snell et al., 2017); unlabelled rows are answered and teach nothing.

    metric "cosine" with τ = 10 or "euclid" with τ = 1, unless `tau` says otherwise.
    """

    def __init__(self, *, metric: str = "cosine", tau: float | None = None, device: str = "cpu"):
        self.metric = metric
        self.tau = tau
        self.device = device

    def _how(self) -> Adaptation:
        return Adaptation(rule(self.metric), scale(self.metric, self.tau), n_iter=0)


class SemiProtoNetClassifier(PrototypeClassifier):
    """ProtoNet with means re-estimated from softly assigned unlabelled rows (Ren et al., 2018)."""

    def __init__(self, *, n_iter: int = 1, metric: str = "euclid", tau: float | None = None, device: str = "cpu"):
        self.n_iter = n_iter
        self.metric = metric
        self.tau = tau
        self.device = device

    def _how(self) -> Adaptation:
        return Adaptation(rule(self.metric), scale(self.metric, self.tau), self.n_iter)


class SoftKMeansClassifier(PrototypeClassifier):
    """Soft k-means on rows of unit length about the mean of all fitted rows (Bendou et al., 2022)."""

    def __init__(self, *, n_iter: int = 29, tau: float = 5.0, device: str = "cpu"):
        self.n_iter = n_iter
        self.tau = tau
        self.device = device

    def _how(self) -> Adaptation:
        return Adaptation("euclid", self.tau, self.n_iter, center="joint", l2=True)


class PTMAPClassifier(PrototypeClassifier):
    """PT+MAP (Hu et al., 2021): unlabelled rows are shared out among classes of sizes that are told, or else equal.

    `class_prior` holds the classes' shares of the unlabelled rows, in the order of classes_; where they are wrong,
    PT+MAP loses many points. The paper has no inductive form. But its transport plan is a softmax with one bias a class
    (`methods.many`), so a new row is answered with the biases of the fitted rows, which for those is the plan itself.
    """

    def __init__(
        self,
        *,
        n_iter: int = 20,
        step: float = 0.2,
        lam: float = 10.0,
        beta: float = 0.5,
        power: str = "auto",
        class_prior: Sequence[float] | None = None,
        device: str = "cpu",
    ):
        self.n_iter = n_iter
        self.step = step
        self.lam = lam
        self.beta = beta
        self.power = power
        self.class_prior = class_prior
        self.device = device

    def _how(self) -> Adaptation:
        prior = None if self.class_prior is None else torch.as_tensor(self.class_prior)
        return Adaptation("sinkhorn", self.lam, self.n_iter, self.step, "separate", True, class_prior=prior)
