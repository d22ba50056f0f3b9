"""The fitted classifier: prototypes and how rows are compared with them, in a file that anyone may open.

A row x of features is raised to the power β and brought to unit length (unless power is "off"), less `center`, brought
to unit length again (if l2); its logits are τ·cos(x, p_c) + b_c (rule "cosine") or −λ‖x − p_c‖² + b_c ("euclid"), its
class probabilities softmax(logits / temperature). With a calibrated model (`calibration`), a row that is not familiar
enough with the labelled ones is of no class. File: safetensors, tensors center (D), prototypes (W, D), class_bias (W)
and means (W, D) of the labelled rows; all else is JSON in its metadata. No code runs on load.
"""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from protoadapt.core.errors import UserError, unknown
from protoadapt.core.estimators import (
    BAPAClassifier,
    CIPAClassifier,
    ProtoNetClassifier,
    PrototypeClassifier,
    PTMAPClassifier,
    SemiProtoNetClassifier,
    SoftKMeansClassifier,
)
from protoadapt.core.files import written_whole
from protoadapt.core.methods.adaptation import Adaptation
from protoadapt.core.methods.cipa import power_transform
from protoadapt.core.methods.common import unit
from protoadapt.core.methods.many import calibrated, chunk_size, logits, two_best
from protoadapt.core.untrusted import finite, normalisation, whole

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
LARGEST = 1e15  # of a tensor's numbers: their squares and sums stay finite


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
    chosen.set_params(**settings).check_settings()
    return chosen


def described(chosen: PrototypeClassifier) -> dict[str, Any]:
    """An estimator's name and settings, as they are told."""
    name = next(name for name, kind in ESTIMATORS.items() if type(chosen) is kind)
    return {"name": name, "settings": {key: v for key, v in chosen.get_params().items() if key != "device"}}


class Answers(NamedTuple):
    """What is said of n rows."""

    best: np.ndarray  # (n, 2): the two likeliest classes
    probability: np.ndarray  # (n, 2): theirs
    unknown: np.ndarray  # (n): whether the row is of none; never, where the model is not calibrated

    @classmethod
    def of(cls, parts: Iterable["Answers"]) -> "Answers":
        return cls(*(np.concatenate(part) for part in zip(*parts)))

    def at(self, places: Any) -> "Answers":
        return Answers(*(part[places] for part in self))


def familiarity(u: Tensor, means: Tensor) -> Tensor:
    """(n): the largest mean cosine of rows u (n, D) to the labelled rows of a class; means (W, D) as below."""
    return (unit(u) @ means.mT).amax(1)


def familiarity_threshold(calibration: Mapping[str, Any], way: int) -> float:
    """Below it a picture is of none of `way` classes; between the numbers of classes measured, linear in log way."""
    told = calibration["familiarity"]
    return float(np.interp(np.log(way), np.log(told["way"]), told["threshold"]))


@dataclass(frozen=True)
class Classifier:
    classes: list[str]
    center: Tensor  # (D)
    prototypes: Tensor  # (W, D)
    class_bias: Tensor  # (W)
    means: Tensor  # (W, D), of the labelled rows as they are compared, at unit length
    rule: str  # "cosine" or "euclid"
    scale: float  # τ or λ
    power: str  # "auto", "signed", "strict" or "off"
    beta: float
    l2: bool
    model: dict[str, Any]  # name, weights (hash), size, mean, std; views, where there are several
    temperature: float = 1.0
    threshold: float | None = None  # a row less familiar is of no class; None: the model is not calibrated

    @classmethod
    def of(
        cls,
        fitted: PrototypeClassifier,
        classes: list[str],
        model: dict[str, Any],
        rows: np.ndarray,
        codes: np.ndarray,
        calibration: Mapping[str, Any] | None = None,
    ) -> "Classifier":
        """rows (n, D), codes (n): those it was fitted with that have a label, and perhaps others (-1).

        The model's calibration counts for the method that it was learned with, with its own settings, and no other.
        """
        how, settings = fitted._how(), fitted.get_params()
        center, prototypes, bias = (
            torch.from_numpy(part).float() for part in (fitted.center_, fitted.prototypes_, fitted.class_bias_)
        )
        rule = "cosine" if how.rule == "cosine" else "euclid"  # a row of a transport plan: distances and biases
        power, beta = settings.get("power", "off"), float(settings.get("beta", 1.0))
        how_compared = (rule, float(how.scale), power, beta, how.l2)
        made = cls(classes, center, prototypes, bias, torch.zeros_like(prototypes), *how_compared, model)
        labels = torch.from_numpy(codes[codes >= 0])
        sums = made.means.index_add(0, labels, unit(made.calibrate(rows[codes >= 0])))
        made = replace(made, means=sums / labels.bincount(minlength=len(classes))[:, None])
        usual = described(type(fitted)())
        if calibration is None or calibration["method"] != usual["name"] or described(fitted) != usual:
            return made
        threshold = familiarity_threshold(calibration, len(classes))
        return replace(made, temperature=float(calibration["temperature"]), threshold=threshold)

    def calibrate(self, rows: np.ndarray) -> Tensor:
        """(n, D): rows as they are compared with the prototypes."""
        x = torch.from_numpy(rows).float()
        if self.power != "off":
            x = power_transform(x, self.beta, self.power)
        return next(iter(calibrated([x], self.center, self._how)))

    def answer(self, rows: np.ndarray) -> Answers:
        """Rows (n, D), chunk by chunk."""
        if rows.shape[1] != len(self.center):
            raise UserError(
                f"the model gives features of {rows.shape[1]} dimensions, the classifier was made with "
                f"{len(self.center)}: give its own model with --model"
            )

        def part(chunk: np.ndarray) -> Answers:
            u = self.calibrate(chunk)
            return self.decide(logits(u, self.prototypes, self.class_bias, self._how), familiarity(u, self.means))

        size = chunk_size(*self.prototypes.shape)
        return Answers.of(part(rows[start : start + size]) for start in range(0, max(len(rows), 1), size))

    def decide(self, scores: Tensor, close: Tensor) -> Answers:
        """From logits (n, W) and familiarity (n)."""
        best, probability = two_best(scores / self.temperature)
        if not torch.isfinite(probability).all():
            raise UserError("the classifier's answers are not numbers: its file is damaged, label again to make it")
        unknown = close < (-math.inf if self.threshold is None else self.threshold)
        return Answers(*(part.cpu().numpy() for part in (best, probability, unknown)))

    @property
    def _how(self) -> Adaptation:
        return Adaptation(self.rule, self.scale, n_iter=0, l2=self.l2)


def save_classifier(path: str | Path, classifier: Classifier) -> None:
    """One safetensors file, whole or not at all."""
    told = asdict(classifier) | {"schema": SCHEMA}
    tensors = {name: told.pop(name).contiguous() for name in SHAPES}
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
            tensors = {name: file.get_tensor(name) for name in SHAPES}
        classifier = Classifier(**told, **tensors)
        _check(classifier)
        return classifier
    except (SafetensorError, OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise UserError(f"{str(path)!r} is no classifier, or is damaged ({error}): label again to make it") from error


def _check(told: Classifier) -> None:
    """Raises ValueError."""
    names = isinstance(told.classes, list) and all(isinstance(name, str) for name in told.classes)
    if not names or not 2 <= len(set(told.classes)) == len(told.classes):
        raise ValueError("its classes are no list of two or more names")
    sizes = {"W": len(told.classes), "D": len(told.center)}
    for name, axes in SHAPES.items():
        tensor = getattr(told, name)
        if tensor.dtype != torch.float32 or tensor.shape != tuple(sizes[axis] for axis in axes):
            raise ValueError(f"{name} has another shape or type")
        if not (tensor.abs() <= LARGEST).all():
            raise ValueError(f"{name} holds NaN, or numbers too large to compute with")
    "".join(told.classes).encode()  # a half character is no name, and fails here
    model = told.model if isinstance(told.model, dict) else {}
    fine = [
        told.rule in ("cosine", "euclid"),
        told.power in ("auto", "signed", "strict", "off"),
        finite(told.scale, 1e-6, 1e6) and finite(told.beta, 1e-3, 1e3) and finite(told.temperature, 1e-3, 1e3),
        isinstance(told.l2, bool),
        told.threshold is None or finite(told.threshold, -1, 1),
        isinstance(model.get("name"), str) and isinstance(model.get("weights"), str),
        whole(model.get("size"), 8, 1024) and normalisation(model.get("mean"), model.get("std")),
        whole(model.get("views", 1), 1, 1024),
    ]
    if not all(fine):
        raise ValueError("its description is incomplete")
