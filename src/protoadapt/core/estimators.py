"""scikit-learn classifiers over `methods`: a few labelled rows, many unlabelled ones, any features.

    model = CIPAClassifier().fit(X, y)      # y is -1 (None or NaN beside names) where a row has no label
    model.transduction_                     # a label for every fitted row
    model.predict(new)                      # one row or many, each answered alone from what was fitted

All of them fit one state: rows are raised to a power and centred by `center_` as the method asks, and answered by
softmax(similarity to `prototypes_` + `class_bias_`). So a new row is answered alone, and a fitted unlabelled row gets
its `transduction_` again. An estimator equals the method of the same name at equal settings (a law in the tests). Its
settings are those that the method declares; `_rule` makes the method's own rule of them, and `methods.family.learn`
does the rest.

Memory beyond X is bounded by the labelled rows, some blocks of others and about fifty bytes per row.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import ClassVar

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor
from torch.nn.functional import one_hot

from protoadapt.core.arrays import check_scale, check_size, checked_device, refuse_mask
from protoadapt.core.errors import UserError
from protoadapt.core.methods import unnamed
from protoadapt.core.methods.bapa import KAPPA, LAM, N_ITER, SIGMA, bapa, mixture_rule
from protoadapt.core.methods.cipa import cipa, cosine_rule
from protoadapt.core.methods.family import Labelled, Rule, learn
from protoadapt.core.methods.prototypes import joint_rule, metric_rule, protonet, semi_protonet, soft_kmeans
from protoadapt.core.methods.pt_map import pt_map, transport_rule
from protoadapt.core.methods.rows import Slices, kept, powered_rows, sampled
from protoadapt.core.methods.settings import Setting, declarations
from protoadapt.core.partial_labels import encode, warn_of_one_class, warn_of_ordinary_folds
from protoadapt.core.prototype_model import (
    HAS_NAME,
    Answers,
    PrototypeModel,
    as_numpy,
    block_size,
    decide,
    power_transform,
    softmax,
)

FLOATS = [np.float32, np.float64]
"""Computed with as they come; every other type becomes the first."""
DISCOVER = Setting("whether to look for classes without a name", name="discover", kinds=(bool,))


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
    method: ClassVar[Callable[..., Tensor]]  # whose settings these are
    device: str
    n_unnamed_, temperature_, least_density_ = 0, 1.0, -np.inf  # see BAPAClassifier

    @abstractmethod
    def _rule(self) -> Rule:
        """The method's choices."""

    def check_settings(self) -> None:
        """Raises UserError where a setting is out of its range."""
        declared = {"discover": DISCOVER, **declarations(self.method)}
        for name, value in self.get_params(deep=False).items():
            if name in declared:
                declared[name].check(value)
        checked_device(self.device)

    def fit(self, X, y):
        """Learns from features X (n, D) and labels y (n): -1, None or NaN for rows without one. Returns self.

        Classes may have unequal numbers of labelled rows.

        >>> BAPAClassifier().fit(X, y).transduction_    # doctest: +SKIP
        """
        X, codes = self._partly_labelled(X, y)
        self._keep(self._learn(*self._divided(X, codes)), X.dtype)
        self.two_best_, self.two_best_proba_, *_ = self._decided(X)
        self.transduction_ = self.classes_[np.where(codes < 0, self.two_best_[:, 0], codes)]
        return self

    def fit_predict(self, X, y) -> np.ndarray:
        """(n): `transduction_` of the rows X (n, D), after a fit to them."""
        return self.fit(X, y).transduction_

    def fit_rows(self, support, labels, arrays: Iterable[np.ndarray]):
        """Fits from labelled rows (S, D), as they were extracted, their labels (S), and arrays (n, D) of unlabelled
        rows, which are run through again in every step.

        So the rows may lie elsewhere: `core.parts.PartsTable` reads those of a table on disk, `methods.rows.Slices`
        some of a table in memory. Afterwards `predict`, `predict_proba` and `model` answer; there is no
        `transduction_`, as unlabelled rows are never held. Returns self.
        """
        support, codes = self._partly_labelled(support, labels)
        if (codes < 0).any():
            raise UserError("fit_rows takes labelled rows only: put rows without a label into the arrays")
        self._keep(self._learn(*self._labelled(support, codes), arrays), support.dtype)
        return self

    @property
    def model(self) -> PrototypeModel:
        """The fitted state as tensors on the estimator's device; answers power-transformed rows."""
        rule = self._rule()
        fitted = (self.center_, self.prototypes_, self.class_bias_)
        center, prototypes, bias = (torch.from_numpy(part).to(checked_device(self.device)) for part in fitted)
        return PrototypeModel(center, prototypes, bias, rule.similarity, rule.scale, rule.l2)

    def predict(self, X) -> np.ndarray:
        """(n): the likeliest class of each row; the first of those that tie."""
        answers = self._decided(self._checked(X))
        return self.classes_[answers.best[:, 0]]

    def predict_proba(self, X) -> np.ndarray:
        """(n, W), in the order of classes_."""
        blocks = self._logits(self._checked(X))
        n_classes = len(self.classes_)
        return np.concatenate([as_numpy(softmax(logits[:, :n_classes] / self.temperature_)) for logits in blocks])

    def score(self, X, y, sample_weight=None) -> float:
        """The accuracy on the rows of X (n, D) that have a label in y (n); rows without one are not counted."""
        classes, codes = encode(y)
        known = codes >= 0
        if len(codes) != len(getattr(self, "transduction_", codes)):  # not the fitted rows once more
            warn_of_ordinary_folds(len(codes) - known.sum())
        weight = None if sample_weight is None else np.asarray(sample_weight)[known]
        return float(np.average(self.predict(X)[known] == classes[codes[known]], weights=weight))

    def path(self, X, y) -> np.ndarray:
        """(n_iter + 1, W, D): the prototypes of the classes after each step, without fitting the estimator."""
        unfitted = clone(self)
        models = unfitted._steps(*unfitted._divided(*unfitted._partly_labelled(X, y)))
        return np.stack([model.prototypes.cpu().numpy() for model in models])

    def _partly_labelled(self, X, y) -> tuple[np.ndarray, np.ndarray]:
        """X and the position of each row's label in classes_, or -1."""
        if y is None:
            raise UserError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        self.check_settings()
        refuse_mask(X, "rows of X")
        X = validate_data(self, X, dtype=FLOATS)
        check_scale(X)
        check_consistent_length(X, y)
        self.classes_, codes = encode(y)
        warn_of_one_class(y)
        return X, codes

    def _divided(self, X: np.ndarray, codes: np.ndarray) -> tuple[Tensor, Tensor, Slices]:
        """The labelled rows and the unlabelled ones, as `_learn` takes them."""
        known = codes >= 0
        return *self._labelled(X[known], codes[known]), Slices(X, np.flatnonzero(~known))

    def _labelled(self, support: np.ndarray, codes: np.ndarray) -> tuple[Tensor, Tensor]:
        """Powered labelled rows (S, D) and their classes (W, S), one-hot."""
        x = self._powered(support)
        return x, one_hot(torch.from_numpy(codes), len(self.classes_)).mT.to(x)

    def _learn(self, x: Tensor, y: Tensor, arrays: Iterable[np.ndarray]) -> Iterator[PrototypeModel]:
        """The models of which the last becomes the fitted state."""
        return self._steps(x, y, arrays)

    def _steps(
        self, x: Tensor, y: Tensor, arrays: Iterable[np.ndarray], starts: Labelled | None = None
    ) -> Iterator[PrototypeModel]:
        """The models after 0, 1, … n_iter steps."""
        rows = powered_rows(arrays, self.beta, self.power, x.dtype, self.device)
        return learn(self._rule(), (x, y), kept(rows), y.double().sum(1, keepdim=True), starts)

    def _keep(self, models: Iterator[PrototypeModel], dtype: np.dtype) -> None:
        """The last of the models becomes the fitted state."""
        *_, model = models
        fitted = (part.cpu().numpy().astype(dtype) for part in (model.center[0], model.prototypes, model.bias))
        self.center_, self.prototypes_, self.class_bias_ = fitted

    def _powered(self, rows: np.ndarray) -> Tensor:
        return power_transform(torch.from_numpy(rows).to(self.device), self.beta, self.power)

    def _checked(self, X) -> np.ndarray:
        check_is_fitted(self)
        refuse_mask(X, "rows of X")
        X = validate_data(self, X, dtype=FLOATS, reset=False)
        check_size(X, self.center_.dtype.itemsize)  # rows are computed with as those that were fitted
        return X

    def _logits(self, X: np.ndarray) -> Iterator[Tensor]:
        """The logits (n, W + n_unnamed_) of blocks of rows, in the type of what was fitted."""
        model = self.model
        size = block_size(len(self.classes_), X.shape[1])
        for start in range(0, len(X), size):
            x = self._powered(X[start : start + size].astype(self.center_.dtype))  # a copy: X may be read-only
            yield model.scores(model.prepare(x)).mT

    def _decided(self, X: np.ndarray) -> Answers:
        settings = len(self.classes_), self.temperature_, self.least_density_
        return Answers.joined(decide(logits, *settings) for logits in self._logits(X))


class BAPAClassifier(PrototypeClassifier):
    """Balance-Agnostic Prototype Adaptation (ours); settings as in `methods.bapa`. Start with this one.

    Unlabelled rows help whatever classes they are of: many or few, mixed, or all of one class. `center_` is the mean of
    the class means, and `class_bias_` holds the logarithm of the classes' estimated sizes, or what makes their sizes
    those of `class_prior`. Without unlabelled rows the labelled ones alone move the class means, so that each claims
    its own.

    discover=True looks for rows of no class in `classes_` (`methods.unnamed`), kinds without a name and strays, and
    measures how reliable the answers are, unless the class sizes are given, which leaves no room for others. `predict`
    gives the likeliest class with a name in any case. After `fit` then:

    n_unnamed_       number of groups without a name; prototypes_ and class_bias_ have them last
    unnamed_ (n)     of each fitted row HAS_NAME, STRAY or the number of its group from 0, as `predict_unnamed` says
    temperature_     probabilities are softmax(logits / temperature_)
    least_density_   rows of less density are strays
    """

    method = staticmethod(bapa)

    def __init__(
        self,
        *,
        n_iter=N_ITER,
        sigma=SIGMA,
        lam=LAM,
        kappa=KAPPA,
        beta=0.5,
        power="auto",
        class_prior=None,
        discover=False,
        device="cpu",
    ):
        self.n_iter = n_iter
        self.sigma = sigma
        self.lam = lam
        self.kappa = kappa
        self.beta = beta
        self.power = power
        self.class_prior = class_prior
        self.discover = discover
        self.device = device

    def _rule(self) -> Rule:
        return mixture_rule(self.n_iter, self.sigma, self.lam, self.kappa, self.class_prior)

    def fit(self, X, y):
        """As for all classifiers; with discover=True also `unnamed_`."""
        super().fit(X, y)
        if self.discover:
            labelled = encode(y)[1] >= 0
            self.unnamed_ = np.where(labelled, HAS_NAME, self.predict_unnamed(X))
        return self

    def predict_unnamed(self, X) -> np.ndarray:
        """(n): HAS_NAME for a row of a class in classes_, STRAY for one of no class, or the number of its group."""
        return self._decided(self._checked(X)).group

    def _learn(self, x: Tensor, y: Tensor, arrays: Iterable[np.ndarray]) -> Iterator[PrototypeModel]:
        self.n_unnamed_, self.temperature_, self.least_density_ = 0, 1.0, -np.inf
        discovers = self.discover and self.class_prior is None
        return self._discovered(x, y, arrays) if discovers else self._steps(x, y, arrays)

    def _discovered(self, x: Tensor, y: Tensor, arrays: Iterable[np.ndarray]) -> Iterator[PrototypeModel]:
        """The models of all rows, with the groups that a sample of them shows."""
        some = self._powered(sampled(arrays, unnamed.sample_size(len(y)), x[:0].cpu().numpy()))
        seeds = unnamed.discover(self._rule(), x, y, some)
        self.n_unnamed_ = len(seeds)
        labels, begun = unnamed.with_groups(y, *seeds.shape)
        for model in self._steps(x, labels, arrays, (some[seeds.flatten()], begun)):
            yield model
        self.temperature_, self.least_density_ = unnamed.temperature_and_threshold(model, some, y)


class CIPAClassifier(PrototypeClassifier):
    """Calibrated Iterative Prototype Adaptation (Ye et al., 2020); settings as in `methods.cipa`, but power="auto".

    With `center="separate"`, the paper's, labelled rows are centred by their mean and all others, fitted and new, by
    the mean of the unlabelled rows (query_center="unlabeled" of the method). So those must be many and of mixed
    classes: with very few of them, or one class alone, CIPA answers at chance. Without any it is ProtoNet, centred by
    the support.
    """

    method = staticmethod(cipa)

    def __init__(
        self, *, n_iter=20, sigma=0.2, tau=10.0, beta=0.5, power="auto", center="separate", l2=True, device="cpu"
    ):
        self.n_iter = n_iter
        self.sigma = sigma
        self.tau = tau
        self.beta = beta
        self.power = power
        self.center = center
        self.l2 = l2
        self.device = device

    def _rule(self) -> Rule:
        return cosine_rule(self.n_iter, self.sigma, self.tau, self.center, self.l2)


class ProtoNetClassifier(PrototypeClassifier):
    """The nearest class mean of raw features (Snell et al., 2017); unlabelled rows are answered and teach nothing.

    metric "cosine" with τ = 10 or "euclid" with τ = 1, unless `tau` says otherwise.
    """

    method = staticmethod(protonet)

    def __init__(self, *, metric="cosine", tau=None, device="cpu"):
        self.metric = metric
        self.tau = tau
        self.device = device

    def _rule(self) -> Rule:
        return metric_rule(self.metric, self.tau, n_iter=0)


class SemiProtoNetClassifier(PrototypeClassifier):
    """ProtoNet with means estimated again from softly assigned unlabelled rows (Ren et al., 2018)."""

    method = staticmethod(semi_protonet)

    def __init__(self, *, n_iter=1, metric="euclid", tau=None, device="cpu"):
        self.n_iter = n_iter
        self.metric = metric
        self.tau = tau
        self.device = device

    def _rule(self) -> Rule:
        return metric_rule(self.metric, self.tau, self.n_iter)


class SoftKMeansClassifier(PrototypeClassifier):
    """Soft k-means on rows of unit length about the mean of all fitted rows (Bendou et al., 2022)."""

    method = staticmethod(soft_kmeans)

    def __init__(self, *, n_iter=29, tau=5.0, device="cpu"):
        self.n_iter = n_iter
        self.tau = tau
        self.device = device

    def _rule(self) -> Rule:
        return joint_rule(self.n_iter, self.tau)


class PTMAPClassifier(PrototypeClassifier):
    """PT+MAP (Hu et al., 2021): unlabelled rows are distributed over classes of known sizes, equal ones by default.

    `class_prior` holds the classes' shares of the unlabelled rows, in the order of classes_; where they are wrong,
    PT+MAP loses many points. The paper has no inductive form. But its transport plan is a softmax with one bias per
    class (`methods.family`), so a new row is answered with the biases of the fitted rows, which for those is the plan
    itself.
    """

    method = staticmethod(pt_map)

    def __init__(self, *, n_iter=20, step=0.2, lam=10.0, beta=0.5, power="auto", class_prior=None, device="cpu"):
        self.n_iter = n_iter
        self.step = step
        self.lam = lam
        self.beta = beta
        self.power = power
        self.class_prior = class_prior
        self.device = device

    def _rule(self) -> Rule:
        return transport_rule(self.n_iter, self.step, self.lam, self.class_prior)
