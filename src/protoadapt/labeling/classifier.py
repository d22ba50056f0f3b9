"""The fitted classifier: prototypes and how rows are compared with them, in a file that anyone may open.

A row x of features is raised to the power β and brought to unit length (unless power is "off"), less `center`, brought
to unit length again (if l2); its logits are τ·cos(x, p_c) + b_c (rule "cosine") or −λ‖x − p_c‖² + b_c ("euclid"), its
class probabilities softmax(logits / temperature). With a calibrated model, a row that is not familiar enough with the
labelled rows (`models.calibration`) is of no class. File: safetensors, tensors center (D), prototypes (W, D),
class_bias (W) and, where known, means (W, D) of the labelled rows; all else is JSON in its metadata. No code runs on
load.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from protoadapt.errors import UserError, unknown
from protoadapt.estimators import (
    BAPAClassifier,
    CIPAClassifier,
    ProtoNetClassifier,
    PrototypeClassifier,
    PTMAPClassifier,
    SemiProtoNetClassifier,
    SoftKMeansClassifier,
)
from protoadapt.files import written_whole
from protoadapt.methods.adaptation import Adaptation
from protoadapt.methods.cipa import power_transform
from protoadapt.methods.many import calibrated, chunk_size, logits, two_best
from protoadapt.models.calibration import familiarity

SCHEMA = "protoadapt-classifier/1"
ESTIMATORS: dict[str, type[PrototypeClassifier]] = {
    "bapa": BAPAClassifier,
    "cipa": CIPAClassifier,
    "protonet": ProtoNetClassifier,
    "semi_protonet": SemiProtoNetClassifier,
    "soft_kmeans": SoftKMeansClassifier,
    "pt_map": PTMAPClassifier,
}
MAX_BYTES = 1 << 30
SHAPES = {"center": "D", "prototypes": "WD", "class_bias": "W", "means": "WD"}
TOLD = {"name": str, "weights": str, "size": int, "mean": list, "std": list}
"""What a classifier says of the model it belongs to."""


def estimator(method: str, settings: Mapping[str, Any], device: str = "cpu") -> PrototypeClassifier:
    """An unfitted estimator, its settings checked."""
    if method not in ESTIMATORS:
        raise unknown("method for labelling", method, ESTIMATORS)
    chosen = ESTIMATORS[method](device=device)
    defaults = chosen.get_params()
    del defaults["device"]
    for key, value in settings.items():
        if key not in defaults:
            raise unknown(f"setting of {method}", key, defaults)
        if isinstance(defaults[key], (int, float)) and not isinstance(value, (int, float)):
            raise UserError(f"{key}={value!r} does not fit {method}: give a number, such as {key}={defaults[key]}")
    return chosen.set_params(**settings)


@dataclass(frozen=True)
class Classifier:
    classes: list[str]
    center: Tensor  # (D)
    prototypes: Tensor  # (W, D)
    class_bias: Tensor  # (W)
    rule: str  # "cosine" or "euclid"
    scale: float  # τ or λ
    power: str  # "auto", "signed", "strict" or "off"
    beta: float
    l2: bool
    model: dict[str, Any]  # name, weights (hash), size, mean, std
    temperature: float = 1.0
    threshold: float | None = None  # of the probability; None: the model is not calibrated
    means: Tensor | None = None  # (W, D), of the labelled rows as they are compared
    familiarity: float | None = None  # a threshold that tells pictures of no class better, where there are means

    @classmethod
    def of(cls, fitted: PrototypeClassifier, classes: list[str], model: dict[str, Any], **calibration) -> "Classifier":
        how, settings = fitted._how(), fitted.get_params()
        center, prototypes, bias = (
            torch.from_numpy(part).float() for part in (fitted.center_, fitted.prototypes_, fitted.class_bias_)
        )
        rule = "cosine" if how.rule == "cosine" else "euclid"  # a row of a transport plan: distances and biases
        power, beta = settings.get("power", "off"), float(settings.get("beta", 1.0))
        how_compared = (rule, float(how.scale), power, beta, how.l2)
        return cls(classes, center, prototypes, bias, *how_compared, model, **calibration)

    def calibrate(self, rows: np.ndarray) -> Tensor:
        """(n, D): rows as they are compared with the prototypes."""
        x = torch.from_numpy(rows).float()
        if self.power != "off":
            x = power_transform(x, self.beta, self.power)
        return next(iter(calibrated([x], self.center, self._how)))

    def answer(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The two likeliest classes of each row (n, 2) and their probabilities (n, 2), chunk by chunk."""
        if rows.shape[1] != len(self.center):
            raise UserError(
                f"the model gives features of {rows.shape[1]} dimensions, the classifier was made with "
                f"{len(self.center)}: give its own model with --model"
            )
        size = chunk_size(*self.prototypes.shape)
        best = np.empty((len(rows), 2), np.int64)
        probability = np.empty((len(rows), 2), np.float32)
        for start in range(0, len(rows), size):
            chunk = slice(start, start + size)
            scores = logits(self.calibrate(rows[chunk]), self.prototypes, self.class_bias, self._how)
            best[chunk], probability[chunk] = (part.numpy() for part in two_best(scores / self.temperature))
        return best, probability

    def with_familiarity(self, rows: np.ndarray, codes: np.ndarray, threshold: float) -> "Classifier":
        """The same, with the means of the labelled rows; codes (n): the class of a row, or -1."""
        labels = torch.from_numpy(codes[codes >= 0])
        sums = torch.zeros_like(self.prototypes).index_add_(0, labels, self.calibrate(rows[codes >= 0]))
        shots = labels.bincount(minlength=len(self.classes))[:, None]
        return replace(self, means=sums / shots, familiarity=threshold)

    def unknown(self, rows: np.ndarray, probability: np.ndarray) -> np.ndarray:
        """(n): whether a row is of no class, by its familiarity where that is known, else by its probability (n, 2)."""
        if self.means is None or self.familiarity is None:
            return probability[:, 0] < (self.threshold or 0.0)
        size = chunk_size(*self.prototypes.shape)
        chunks = (self.calibrate(rows[start : start + size]) for start in range(0, len(rows), size))
        return np.concatenate([(familiarity(u, self.means) < self.familiarity).numpy() for u in chunks])

    @property
    def _how(self) -> Adaptation:
        return Adaptation(self.rule, self.scale, n_iter=0, l2=self.l2)


def save_classifier(path: str | Path, classifier: Classifier) -> None:
    """One safetensors file, whole or not at all."""
    told = asdict(classifier) | {"schema": SCHEMA}
    tensors = {name: tensor.contiguous() for name in SHAPES if (tensor := told.pop(name)) is not None}
    with written_whole(path) as partial:
        partial.write_bytes(save(tensors, {"protoadapt": json.dumps(told)}))


def load_classifier(path: str | Path) -> Classifier:
    """A classifier, everything that its file says of itself checked."""
    path = Path(path)
    if not path.is_file():
        raise UserError(f"there is no classifier {str(path)!r}: `protoadapt label` writes one, classifier.safetensors")
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ValueError("the file is too large")
        with safe_open(path, framework="pt") as file:
            told = json.loads((file.metadata() or {}).get("protoadapt", "null"))
            if not isinstance(told, dict) or told.pop("schema", None) != SCHEMA:
                raise ValueError("it is of another kind")
            there = set(file.keys())
            tensors = {name: file.get_tensor(name) for name in SHAPES if name != "means" or name in there}
        classifier = Classifier(**told, **tensors)
        _check(classifier)
        return classifier
    except (SafetensorError, OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise UserError(f"{str(path)!r} is no classifier, or is damaged ({error}): label again to make it") from error


def _check(told: Classifier) -> None:
    """Raises ValueError."""

    def number(value: Any, least: float = 0.0) -> bool:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and least < value < math.inf

    names = isinstance(told.classes, list) and all(isinstance(name, str) for name in told.classes)
    if not names or not 2 <= len(set(told.classes)) == len(told.classes):
        raise ValueError("its classes are no list of two or more names")
    sizes = {"W": len(told.classes), "D": len(told.center)}
    for name, axes in SHAPES.items():
        tensor = getattr(told, name)
        if tensor is None and name == "means":
            continue
        if tensor.dtype != torch.float32 or tensor.shape != tuple(sizes[axis] for axis in axes):
            raise ValueError(f"{name} has another shape or type")
        if not torch.isfinite(tensor).all():
            raise ValueError(f"{name} holds NaN")
    model_told = isinstance(told.model, dict) and all(isinstance(told.model.get(k), kind) for k, kind in TOLD.items())
    fine = [
        told.rule in ("cosine", "euclid"),
        told.power in ("auto", "signed", "strict", "off"),
        all(map(number, (told.scale, told.beta, told.temperature))),
        isinstance(told.l2, bool),
        told.threshold is None or number(told.threshold),
        told.familiarity is None or number(told.familiarity, -2.0),
        model_told,
    ]
    if not all(fine):
        raise ValueError("its description is incomplete")
