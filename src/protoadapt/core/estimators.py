"""scikit-learn classifiers over `methods`: a few labelled rows, many unlabelled ones, any features.

    model = CIPAClassifier().fit(X, y)      # y is -1 (None or NaN beside names) where a row has no label
    model.transduction_                     # a label for every fitted row
    model.predict(new)                      # one row or many, each answered alone from what was fitted

All of them fit one state: rows are raised to a power and centred by `center_` as the method asks, and answered by
softmax(similarity to `prototypes_` + `class_bias_`). So a new row is answered alone, and a fitted unlabelled row gets
its `transduction_` again. An estimator equals the method of the same name at equal settings (a law in the tests). Its
settings are those that the method declares; it says how it prepares rows and adapts in `_how`, and one whose centre or
class sizes move on the way replaces `_steps`.

Memory beyond X is bounded by a block of rows and about fifty bytes per row, however many rows there are.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import replace
from inspect import Parameter, Signature
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from protoadapt.core.arrays import check_size, checked_device, refuse_mask
from protoadapt.core.errors import UserError
from protoadapt.core.methods.adaptation import Adaptation, check_contrast
from protoadapt.core.methods.bapa import bapa
from protoadapt.core.methods.cipa import cipa
from protoadapt.core.methods.normalize import check_offset, power_transform
from protoadapt.core.methods.protonet import metric_adaptation, protonet
from protoadapt.core.methods.pt_map import pt_map
from protoadapt.core.methods.row_learner import PrototypeModel, Support, bapa_steps, prototype_steps, two_best
from protoadapt.core.methods.row_source import DenseBlock, MemorySource, RowSource, Source, block_size
from protoadapt.core.methods.semi_protonet import semi_protonet
from protoadapt.core.methods.settings import Declaration, declarations
from protoadapt.core.methods.soft_kmeans import soft_kmeans
from protoadapt.core.partial_labels import encode, warn_of_one_class

FLOATS = [np.float32, np.float64]
"""Computed with as they come; every other type becomes the first."""


class PrototypeClassifier(ClassifierMixin, BaseEstimator, ABC):
    """What the classifiers share; use one of the classes below.

    Attributes after `fit` (n rows, W classes, D features):

    classes_ (W)            the labels, sorted
    transduction_ (n)       a label for every fitted row: its own if it had one, else what `predict` says
    two_best_ (n, 2)        positions in classes_ of the two likeliest classes of every fitted row, as predicted
    two_best_proba_ (n, 2)  their probabilities; full distributions are what `predict_proba` is for
    prototypes_ (W, D)      among the prepared rows
    center_ (D)             subtracted from a row (after the power transform) before it is answered
    class_bias_ (W)         added to the logits; zero but for BAPA and PT+MAP
    n_features_in_, feature_names_in_ (for data frames)
    """

    power, beta = "off", 0.5  # of methods that take raw features
    tells_corrected = False  # whether `_steps` takes corrected rows apart
    settings: dict[str, Declaration]

    def __init_subclass__(cls, method: Callable[..., Tensor], without: tuple[str, ...] = (), **defaults: Any) -> None:
        """Gives the class the settings of a method, and `device`; `defaults` are those that differ from the method's,
        `without` names settings that have no meaning here."""
        super().__init_subclass__()
        declared = {name: one for name, one in declarations(method).items() if name not in without}
        cls.settings = {name: replace(one, default=defaults.get(name, one.default)) for name, one in declared.items()}
        parameters = {name: one.default for name, one in cls.settings.items()} | {"device": "cpu"}

        def __init__(self, **settings):
            for name in settings.keys() - parameters:
                raise TypeError(f"{cls.__name__} has no setting {name!r}: it has {', '.join(parameters)}")
            for name, default in parameters.items():
                setattr(self, name, settings.get(name, default))

        keywords = [Parameter(name, Parameter.KEYWORD_ONLY, default=default) for name, default in parameters.items()]
        signature = Signature([Parameter("self", Parameter.POSITIONAL_OR_KEYWORD), *keywords])
        __init__.__signature__ = signature  # type: ignore[attr-defined]  # what scikit-learn reads
        cls.__init__ = __init__  # type: ignore[method-assign]

    @abstractmethod
    def _how(self) -> Adaptation:
        """The method's own steps."""

    def check_settings(self) -> None:
        """Raises UserError where a setting is out of its range."""
        for name, declared in self.settings.items():
            declared.check(getattr(self, name))
        checked_device(self.device)

    def fit(self, X, y):
        """Learns from features X (n, D) and labels y (n): -1, None or NaN for rows without one. Returns self.

        Classes may have unequal numbers of labelled rows.

        >>> BAPAClassifier().fit(X, y).transduction_    # doctest: +SKIP
        """
        X, codes = self._partly_labelled(X, y)
        self._keep(self._models(X, codes), X.dtype)
        self.two_best_, self.two_best_proba_ = self._two_best(X)
        self.transduction_ = self.classes_[np.where(codes < 0, self.two_best_[:, 0], codes)]
        return self

    def fit_rows(self, support, labels, source: RowSource, corrected=None):
        """Fits from labelled rows (S, D), as they were extracted, their labels (S), and a source of unlabelled rows.

        corrected (S): whether a row is labelled because a classifier was wrong or in doubt there, so that it does not
        represent its class (`row_learner.bapa_steps`); every class needs another row. None: no row is. Only BAPA makes
        a difference.

        The source (`core.methods.row_source.RowSource`) may hold its rows elsewhere, as
        `vision.shards.shard_source.ShardSource` does. Afterwards `predict`, `predict_proba` and `model` answer; there
        is no `transduction_`, as rows of a source are never held. Returns self.
        """
        self.check_settings()
        support = validate_data(self, support, dtype=FLOATS)
        self._check_scale(support)
        check_consistent_length(support, labels)
        self.classes_, codes = encode(labels)
        if (codes < 0).any():
            raise UserError("fit_rows takes labelled rows only: put rows without a label into the source")
        powered, every = source.powered(self.beta, self.power), np.arange(len(support))
        if corrected is None or not np.any(corrected) or not self.tells_corrected:
            self._keep(self._steps(self._support(support, every, codes), powered), support.dtype)
            return self
        kept, others = every[~np.asarray(corrected, bool)], every[np.asarray(corrected, bool)]
        if len(np.unique(codes[kept])) < len(self.classes_):
            raise UserError("a class has corrected rows only: one row per class, at least, must represent it")
        described, known = (self._support(support, index, codes[index]) for index in (kept, others))
        self._keep(self._steps(described, powered, known), support.dtype)
        return self

    @property
    def model(self) -> PrototypeModel:
        """The fitted state as tensors on the estimator's device; answers blocks of power-transformed rows."""
        how, fitted = self._how(), (self.center_, self.prototypes_, self.class_bias_)
        center, prototypes, bias = (torch.from_numpy(part).to(checked_device(self.device)) for part in fitted)
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

    def score(self, X, y, sample_weight=None) -> float:
        """The accuracy on the rows of X (n, D) that have a label in y (n); rows without one are not counted."""
        classes, codes = encode(y)
        known = codes >= 0
        weight = None if sample_weight is None else np.asarray(sample_weight)[known]
        return float(np.average(self.predict(X)[known] == classes[codes[known]], weights=weight))

    def path(self, X, y) -> np.ndarray:
        """(n_iter + 1, W, D): the prototypes among the prepared rows after each step, without fitting the estimator."""
        unfitted = clone(self)
        return np.stack(
            [model.prototypes.cpu().numpy() for model in unfitted._models(*unfitted._partly_labelled(X, y))]
        )

    def _partly_labelled(self, X, y) -> tuple[np.ndarray, np.ndarray]:
        """X and the position of each row's label in classes_, or -1."""
        if y is None:
            raise UserError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        self.check_settings()
        refuse_mask(X, "rows of X")
        X = validate_data(self, X, dtype=FLOATS)
        self._check_scale(X)
        check_consistent_length(X, y)
        self.classes_, codes = encode(y)
        warn_of_one_class(y)
        return X, codes

    def _check_scale(self, X: np.ndarray) -> None:
        """Raises UserError where X (n, D) is too large or too small for this method to be computed."""
        largest = check_size(X, X.dtype.itemsize)
        check_offset(largest, self.power)
        if largest < 1:
            longest = float(np.einsum("ij,ij->i", X, X).max() ** 0.5)
            check_contrast(longest, self._how(), getattr(torch, X.dtype.name))

    def _models(self, X: np.ndarray, codes: np.ndarray) -> Iterator[PrototypeModel]:
        labelled, rest = np.flatnonzero(codes >= 0), np.flatnonzero(codes < 0)
        unlabeled = self._source(X, rest, X.dtype).powered(self.beta, self.power)
        return self._steps(self._support(X, labelled, codes[labelled]), unlabeled)

    def _support(self, X: np.ndarray, index: np.ndarray, codes: np.ndarray) -> Support:
        blocks = self._source(X, index, X.dtype).powered_blocks(self.beta, self.power)
        return Support(blocks, torch.from_numpy(codes).to(self.device), len(self.classes_))

    def _keep(self, models: Iterator[PrototypeModel], dtype: np.dtype) -> None:
        """The last of the models becomes the fitted state."""
        *_, model = models
        fitted = (part.cpu().numpy().astype(dtype) for part in (model.center, model.prototypes, model.bias))
        self.center_, self.prototypes_, self.class_bias_ = fitted

    def _steps(self, support: Support, source: Source, corrected: Support | None = None) -> Iterator[PrototypeModel]:
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
        """Logits (n, W), block by block, in the type of what was fitted."""
        model, start = self.model, 0
        for rows in self._source(X, np.arange(len(X)), self.center_.dtype):
            block = DenseBlock(power_transform(rows, self.beta, self.power))
            yield slice(start, start + len(rows)), model.logits(block).mT
            start += len(rows)

    def _two_best(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        n_best = min(2, len(self.classes_))
        best = np.empty((len(X), n_best), np.int32)
        p_best = np.empty((len(X), n_best), self.prototypes_.dtype)
        for rows, scores in self._logits(X):
            best[rows], p_best[rows] = (part.cpu().numpy() for part in two_best(scores))
        return best, p_best


class BAPAClassifier(PrototypeClassifier, method=bapa, without=("base_rows", "whiten")):
    """Balance-Agnostic Prototype Adaptation (ours); settings as in `methods.bapa`. Start with this one.

    Unlabelled rows help whatever classes they are of: many or few, mixed, or all of one class. `center_` gives rows of
    large classes less weight, and `class_bias_` holds the logarithm of the classes' estimated sizes, as far as those
    differ by more than chance, or what makes their sizes those of `class_prior`. Without unlabelled rows it is the
    nearest class mean, centred by the support and shrunk
    by kappa.
    """

    tells_corrected = True

    def _how(self) -> Adaptation:
        prior = self.class_prior
        return Adaptation("euclid", self.lam, self.n_iter, self.sigma, l2=True, class_prior=prior)

    def _steps(self, support: Support, source: Source, corrected: Support | None = None) -> Iterator[PrototypeModel]:
        return bapa_steps(support, source, self._how(), self.kappa, self.k_s, corrected)


class CIPAClassifier(PrototypeClassifier, method=cipa, without=("query_center",), power="auto"):
    """Calibrated Iterative Prototype Adaptation (Ye et al., 2020); settings as in `methods.cipa`, but power="auto".

    With `center="separate"`, the paper's, labelled rows are centred by their mean and all others, fitted and new, by
    the mean of the unlabelled rows (query_center="unlabeled" of the method). So those must be many and of mixed
    classes: with very few of them, or one class alone, CIPA answers at chance. Without any it is ProtoNet, centred by
    the support.
    """

    def _how(self) -> Adaptation:
        return Adaptation("cosine", self.tau, self.n_iter, self.sigma, self.center, self.l2)


class ProtoNetClassifier(PrototypeClassifier, method=protonet):
    """The nearest class mean of raw features (Snell et al., 2017); unlabelled rows are answered and teach nothing.

    metric "cosine" with τ = 10 or "euclid" with τ = 1, unless `tau` says otherwise.
    """

    def _how(self) -> Adaptation:
        return metric_adaptation(self.metric, self.tau, n_iter=0)


class SemiProtoNetClassifier(PrototypeClassifier, method=semi_protonet):
    """ProtoNet with means estimated again from softly assigned unlabelled rows (Ren et al., 2018)."""

    def _how(self) -> Adaptation:
        return metric_adaptation(self.metric, self.tau, self.n_iter)


class SoftKMeansClassifier(PrototypeClassifier, method=soft_kmeans):
    """Soft k-means on rows of unit length about the mean of all fitted rows (Bendou et al., 2022)."""

    def _how(self) -> Adaptation:
        return Adaptation("euclid", self.tau, self.n_iter, center="joint", l2=True)


class PTMAPClassifier(PrototypeClassifier, method=pt_map, power="auto"):
    """PT+MAP (Hu et al., 2021): unlabelled rows are distributed over classes of known sizes, equal ones by default.

    `class_prior` holds the classes' shares of the unlabelled rows, in the order of classes_; where they are wrong,
    PT+MAP loses many points. The paper has no inductive form. But its transport plan is a softmax with one bias per
    class (`methods.row_learner`), so a new row is answered with the biases of the fitted rows, which for those is the
    plan itself.
    """

    def _how(self) -> Adaptation:
        return Adaptation("sinkhorn", self.lam, self.n_iter, self.step, "separate", True, class_prior=self.class_prior)
