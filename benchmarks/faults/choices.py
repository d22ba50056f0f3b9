"""Cases that choose settings: of every method, every estimator and of the protocols; arrays of any kind as features."""

import inspect
import warnings
from typing import Any

import numpy as np
import torch

from benchmarks.faults.damage import NASTY, Rng
from benchmarks.faults.reading import check
from benchmarks.faults.world import World
from benchmarks.slow_methods import shortened
from protoadapt.core.evaluate import evaluate
from protoadapt.core.features import synthetic_features
from protoadapt.core.methods import METHODS, Method, declarations, method
from protoadapt.core.methods.settings import Declaration
from protoadapt.core.protocol import Protocol
from protoadapt.labeling.label_methods import ESTIMATORS

ARRAYS: list[Any] = [
    np.ones(5),
    np.ones((5, 2)),
    torch.ones(3),
    np.float32(0.5),
    np.int64(3),
    b"x",
    object(),
    (0.2,) * 5,
]
FEW = 4
"""Steps of a method where a case does not choose their number: a large one is slow by right."""


def settings(rng: Rng, world: World) -> str:
    """Whatever a setting is, there is an answer or a sentence."""
    return (_of_method, _of_method, _of_estimator, _of_protocol, _of_arrays)[rng.integers(5)](rng)


def _value(rng: Rng, declared: Declaration) -> Any:
    """A value inside the declared range, at its ends, just outside, or of any other kind."""
    low, high = declared.setting.low, declared.setting.high
    draw = rng.random()
    if draw < 0.55 or not np.isfinite(high):
        values = [*NASTY, *ARRAYS, declared.default]
        value = values[rng.integers(len(values))]
    elif draw < 0.75 and int not in declared.kinds:
        value = float(np.exp(rng.uniform(np.log(max(low, 1e-9)), np.log(high))))
    else:
        value = [low, high, np.nextafter(low, -np.inf), np.nextafter(high, np.inf), -low, 10 * high][rng.integers(6)]
    if int in declared.kinds and isinstance(value, (int, float)) and 20 < value <= high:
        value = int(rng.integers(max(0, int(low)), 20))  # steps that are allowed and take long are no fault
    return value


def _tiny(rng: Rng) -> Any:
    table = synthetic_features(6, 9, int(rng.integers(2, 9)), seed=int(rng.integers(100)))
    negative = rng.random() < 0.2
    return table.features - 0.5 if negative else table.features, table.labels, table.base_mean


def _chosen(rng: Rng, declared: dict[str, Declaration]) -> dict[str, Any]:
    names = [name for name in declared if rng.random() < 0.4] or list(declared)[:1]
    return {name: _value(rng, declared[name]) for name in names}


def _of_method(rng: Rng) -> str:
    name = list(METHODS)[rng.integers(len(METHODS))]
    declared = declarations(METHODS[name])
    arguments = shortened(name, FEW) | _chosen(rng, declared)
    features, labels, mean = _tiny(rng)
    protocol = Protocol(way=int(rng.integers(2, 6)), query=int(rng.integers(1, 4)))
    if rng.random() < 0.5:
        spec: Method | str = method(name, **arguments)
    else:
        spec = f"{name}({', '.join(f'{key}={value}' for key, value in arguments.items())})"
    result = evaluate(features, labels, spec, protocol, episodes=2, base_mean=mean)
    check(0 <= result.accuracy <= 100, "an accuracy that is none")
    result.to_json()
    return "answered"


def _of_estimator(rng: Rng) -> str:
    name = list(ESTIMATORS)[rng.integers(len(ESTIMATORS))]
    estimator = ESTIMATORS[name]()
    estimator.set_params(**_chosen(rng, estimator.settings))
    features, labels, _ = _tiny(rng)
    y = np.where(rng.random(len(labels)) < 0.3, labels.numpy(), -1)
    y[: 2 * 9 : 9] = [0, 1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        answer = estimator.fit(features.numpy(), y).predict_proba(features.numpy())
    check(bool(np.isfinite(answer).all()) and bool(np.allclose(answer.sum(1), 1, atol=1e-4)), "no probabilities")
    return "answered"


def _of_protocol(rng: Rng) -> str:
    names = list(inspect.signature(Protocol).parameters)
    kinds = ["balanced", "dirichlet", "semi", "distractors", "few", "one"]
    values = {name: [*NASTY, 1, 2, 3, 5][rng.integers(len(NASTY) + 4)] for name in names if rng.random() < 0.3}
    if "kind" not in values or rng.random() < 0.7:
        values["kind"] = kinds[rng.integers(len(kinds))]
    features, labels, _ = _tiny(rng)
    seed, episodes = ([*NASTY, 0, 3][rng.integers(len(NASTY) + 2)] if rng.random() < 0.3 else 1 for _ in range(2))
    if isinstance(episodes, int) and episodes > 100:
        episodes = 3
    evaluate(features, labels, "protonet", Protocol(**values), episodes=episodes, seed=seed)
    return "answered"


def _of_arrays(rng: Rng) -> str:
    """Features and labels of any shape, type and size."""
    features, labels, mean = _tiny(rng)
    rows = features.numpy().astype(
        [np.float16, np.float32, np.float64, np.int8, np.complex64, object, "U8"][rng.integers(7)]
    )
    if rng.random() < 0.4 and rows.dtype.kind == "f":
        rows.flat[rng.integers(rows.size)] = [np.nan, np.inf, 60_000, -60_000, 0][rng.integers(5)]
    if rng.random() < 0.3 and rows.dtype.kind == "f":
        rows = rows * rows.dtype.type(10.0 ** rng.integers(-7, 5))
    forms = [
        rows,
        rows.tolist(),
        rows[:0],
        rows[:, :0],
        rows[0],
        rows[..., None],
        rows.T,
        rows[::-1],
        np.ma.array(rows),
    ]
    names = [f"class {label}" for label in labels]
    targets = [labels, labels.numpy(), labels.tolist(), names, labels[:-1], labels.float(), labels * 0, -labels, None]
    chosen = forms[rng.integers(len(forms))] if rng.random() < 0.5 else rows
    target = targets[rng.integers(len(targets))] if rng.random() < 0.5 else labels
    name = ["protonet", "cipa", "bapa", "pt_map", "semi_protonet", "simpleshot"][rng.integers(6)]
    evaluate(chosen, target, name, Protocol(way=3, query=2), episodes=2, base_mean=mean)
    return "answered"
