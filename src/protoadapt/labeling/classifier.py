"""The fitted classifier: prototypes and the way rows are compared with them, in a file that is safe to open.

A row x of features is raised to the power β and scaled to unit length (unless power is "off"), centred by `center`, and
scaled to unit length again (if l2). Its logits are τ·cos(x, p_c) + b_c (similarity "cosine") or −λ‖x − p_c‖² + b_c
("euclid"), its class probabilities softmax(logits / temperature) over the W classes. Prototypes after those of the
classes are of groups without a name (`core.methods.unnamed`). A row that is likeliest in such a group, or whose density
log Σ_c exp l_c over all C is below `threshold`, is unknown: it may belong to none of the classes.

`load_classifier` returns numpy arrays, and answering with them loads no torch; `Classifier.of` and `to` have tensors.

File: safetensors with center (D), prototypes (C, D) and bias (C) of W classes and C − W groups; everything else
is JSON in its metadata. No code runs on load.
"""

import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save

from protoadapt.core import prototype_model
from protoadapt.core.errors import UserError, finite, intact, whole
from protoadapt.core.files import write_bytes
from protoadapt.core.prototype_model import Answers, Array, PrototypeModel, as_numpy, library, power_transform
from protoadapt.labeling.names import UNKNOWN, group_name
from protoadapt.vision.networks.cards import MOST_VIEWS, input_errors

if TYPE_CHECKING:
    from protoadapt.core.estimators import PrototypeClassifier

_SCHEMA = "protoadapt-classifier/1"
CLASSIFIER = "classifier.safetensors"
"""Its name in the output folder of `label`."""
LONGEST_NAME = 4096
"""Of a network: no path is longer."""
_SHAPES = {"center": "D", "prototypes": "CD", "bias": "C"}
_LARGEST = 1e15  # of a tensor's numbers: their squares and sums stay finite


Loaded = tuple[Any, dict[str, Any]]
"""A network and its metadata, as `networks.load` returns them."""


@dataclass(frozen=True)
class Classifier(PrototypeModel):
    """A fitted classifier of W classes on D features, whose prototypes (C, D) are of the classes, then of the groups.

    `Classifier.of` makes it from a fitted estimator, `load_classifier` reads it from a file, `answer` names rows.
    """

    classes: list[str]
    power: str  # "auto", "strict" or "off"
    beta: float
    model: dict[str, Any]  # name, weights (hash), size, mean, std; views, where there are several
    temperature: float = 1.0
    threshold: float | None = None  # of density; None: no row is below

    @classmethod
    def of(cls, fitted: "PrototypeClassifier", classes: list[str], model: dict[str, Any]) -> "Classifier":
        """The classifier of a fitted estimator."""
        threshold = float(fitted.least_density_)
        return cls(
            **vars(fitted.model),
            classes=classes,
            power=fitted.power,
            beta=float(fitted.beta),
            model=model,
            temperature=float(fitted.temperature_),
            threshold=threshold if math.isfinite(threshold) else None,
        ).to("cpu")

    @property
    def groups(self) -> list[str]:
        """The names of the groups that have none."""
        return [group_name(group) for group in range(len(self.prototypes) - len(self.classes))]

    def prepare(self, rows: Array) -> Array:
        """(n, D): rows (n, D) of features as they are compared with the prototypes: power, centre, unit length."""
        xp = library(self.center)
        rows = xp.asarray(rows, dtype=xp.float32, device=self.center.device)
        return super().prepare(power_transform(rows, self.beta, self.power))

    def answer(self, rows: np.ndarray) -> Answers:
        """Names rows (n, D) of features, block by block."""
        if rows.shape[1] != len(self.center):
            raise UserError(
                f"the model gives features of {rows.shape[1]} dimensions, the classifier was made with "
                f"{len(self.center)}: give its own model with --model"
            )
        size = prototype_model.block_size(*self.prototypes.shape)
        starts = range(0, max(len(rows), 1), size)
        return Answers.joined(self.decide(self.logits(rows[start : start + size])) for start in starts)

    def logits(self, rows: Array) -> Array:
        """(n, C) of rows (n, D) of features."""
        return self.scores(self.prepare(rows)).mT

    def decide(self, logits: Array) -> Answers:
        """The answers from logits (n, C)."""
        threshold = -math.inf if self.threshold is None else self.threshold
        answers = prototype_model.decide(logits, len(self.classes), self.temperature, threshold)
        if not np.isfinite(answers.probability).all():
            raise UserError("the classifier's answers are not numbers: its file is damaged, label again to make it")
        return answers

    def to(self, device: str) -> "Classifier":
        """The same classifier with tensors in float32 on this device."""
        import torch

        moved: dict[str, Any] = {
            name: torch.as_tensor(getattr(self, name), dtype=torch.float32, device=device) for name in _SHAPES
        }
        return replace(self, **moved)


def save_classifier(path: str | Path, classifier: Classifier) -> None:
    """Writes one safetensors file, whole or not at all; `load_classifier` reads it."""
    write_bytes(path, classifier_bytes(classifier))


def classifier_bytes(classifier: Classifier) -> bytes:
    """The content of the file that `save_classifier` writes."""
    metadata = asdict(classifier) | {"schema": _SCHEMA}
    tensors = {name: np.ascontiguousarray(as_numpy(metadata.pop(name))) for name in _SHAPES}
    return save(tensors, {"protoadapt": json.dumps(metadata)})


def load_classifier(path: str | Path) -> Classifier:
    """Reads a classifier.safetensors that `label` wrote, or that of its output folder.

    Everything that the file says about itself is checked, and no code runs. Raises `UserError` for another or a
    damaged file.

    Examples
    --------
    >>> load_classifier("named/classifier.safetensors").classes
    ['beech', 'oak']
    """
    path = Path(path, CLASSIFIER) if Path(path).is_dir() else Path(path)
    if not path.is_file():
        raise UserError(f"there is no classifier {str(path)!r}: `protoadapt label` writes one, {CLASSIFIER}")
    with intact(f"{str(path)!r} is no classifier, or is damaged", "make it again with `protoadapt label`"):
        with safe_open(path, framework="numpy") as file:
            metadata = json.loads((file.metadata() or {}).get("protoadapt", "null"))
            if not isinstance(metadata, dict) or metadata.pop("schema", None) != _SCHEMA:
                raise ValueError("it is of another kind")
            if odd := {*metadata, *file.keys()} ^ {field.name for field in fields(Classifier)}:
                raise ValueError(f"it lacks {', '.join(sorted(odd))}, or this version does not know that")
            tensors = {name: file.get_tensor(name) for name in _SHAPES}
        classifier = Classifier(**metadata, **tensors)
        _check(classifier)
        return classifier


def _check(read: Classifier) -> None:
    """Raises ValueError."""
    names = read.classes if isinstance(read.classes, list) else []
    plain = [name.strip() for name in names if isinstance(name, str)]
    if not (2 <= len(names) == len(set(plain)) and all(plain)) or UNKNOWN in map(str.casefold, plain):
        raise ValueError(f"its classes are no list of two or more names, or one is called {UNKNOWN!r}")
    "".join(names).encode()  # fails for half a character (a lone surrogate), which is no name
    sizes = {"C": max(len(read.prototypes), len(names)), "D": len(read.center)}
    for name, axes in _SHAPES.items():
        tensor = getattr(read, name)
        if tensor.dtype != np.float32 or tensor.shape != tuple(sizes[axis] for axis in axes):
            raise ValueError(f"{name} has another shape or type")
        if not (np.abs(tensor) <= _LARGEST).all():
            raise ValueError(f"{name} holds NaN, or numbers too large to compute with")
    model = read.model if isinstance(read.model, dict) else {}
    fine = read.similarity in ("cosine", "euclid") and read.power in ("auto", "strict", "off")
    fine = fine and isinstance(read.l2, bool) and (read.threshold is None or finite(read.threshold, -1e6, 1e6))
    fine = fine and all(finite(number, 1e-6, 1e6) for number in (read.scale, read.beta, read.temperature))
    texts = model.get("name"), model.get("weights")
    fine = fine and all(isinstance(text, str) and len(text) <= LONGEST_NAME for text in texts)
    if not (fine and whole(model.get("views", 1), 1, MOST_VIEWS)) or input_errors(model):
        raise ValueError("one of its settings is missing or has a wrong value")


def load_same(model: str | Path | None, named: str, weights: str, what: str, load: Callable[..., Loaded]) -> Loaded:
    """The network that `what` made, and its metadata, as `load` returns them (`networks.load`): a file of features or
    of a classifier is of use with its own network only.

    model: the user's choice; None: the one that a file names. No network is downloaded for it.
    """
    network, metadata = load(model or named)
    if metadata["weights"] != weights:
        raise UserError(
            f"the model {metadata['model']!r} has other weights ({metadata['weights']}) than the one that {what} made "
            f"with ({weights}), and features of two models do not mix: give that model"
        )
    return network, metadata
