"""Result JSON read without trust: one check for the pages, the tables and whoever goes on from a file."""

from contextlib import suppress
from dataclasses import asdict
from typing import Any

import numpy as np

from protoadapt.core.episodes import Protocol
from protoadapt.core.errors import UserError
from protoadapt.core.evaluate import class_half_width, half_width
from protoadapt.core.untrusted import finite, whole

Result = dict[str, Any]
LARGEST = 1e12  # of seconds, losses and places in a plane: beyond it a chart has no scale


def results_of(document: dict[str, Any]) -> list[Result]:
    """The results in a document, checked; each knows the training run and the reference that its file names."""
    found = document.get("results", [document] if "correct" in document else [])
    if not isinstance(found, list) or not all(isinstance(result, dict) for result in found):
        raise UserError("its results are no list of results: write it again with --json")
    shared = {key: document[key] for key in ("reference", "training") if document.get(key)}
    return [_checked({**shared, **result}) for result in found]


def sound(document: Any) -> dict[str, Any]:
    """A document without what fails its check, for those who can make that again; empty where nothing is left."""
    if not isinstance(document, dict):
        return {}
    if isinstance(document.get("results"), list):
        good: list[Result] = []
        for result in document["results"]:
            with suppress(UserError):
                good += results_of({"results": [result]})
        return {**document, "results": good} if good else {}
    checks = {"protoadapt-run/1": _tells_of_training, "protoadapt-picture/1": drawable}
    return document if any(document.get("schema") == kind and check(document) for kind, check in checks.items()) else {}


def _checked(result: Result) -> Result:
    right = {
        **{key: finite(result.get(key), 0, 100) for key in ("accuracy", "ci95")},
        **{key: whole(result.get(key), 1) for key in ("episodes", "queries")},
        "seconds": finite(result.get("seconds"), 0, LARGEST),
        "seed": type(result.get("seed")) is int,  # numpy takes them of any length
        "label": isinstance(result.get("label"), str),
        **{key: isinstance(result.get(key), dict) for key in ("protocol", "features")},
    }
    right |= {"correct": all(right.values()) and _fits(result)}
    wrong = [key for key, well in right.items() if not well]
    if wrong:
        raise UserError(f"a result lacks {wrong[0]!r} or has it wrong: write it again with --json")
    try:
        protocol = Protocol(**result["protocol"])
    except (TypeError, ValueError) as error:
        raise UserError(f"a result's protocol is not understood ({error}): write it again with --json") from error
    if result.get("classes") and not _classes_fit(result, protocol):
        raise UserError("a result lacks 'classes' or has it wrong: write it again with --json")
    return {**result, "protocol": asdict(protocol)}


def _fits(result: Result) -> bool:
    """Whether the right answers are those of so many episodes and queries, and give the accuracy that is told."""
    try:
        accuracies = 100 * _numbers(result["correct"]) / result["queries"]
    except (KeyError, ValueError):
        return False
    if accuracies.shape != (result["episodes"],) or not ((accuracies >= 0) & (accuracies <= 100)).all():
        return False
    found, told = (accuracies.mean(), half_width(accuracies)), (result["accuracy"], result["ci95"])
    return np.allclose(found, told, rtol=0, atol=1e-3)  # files hold four digits


def _classes_fit(result: Result, protocol: Protocol) -> bool:
    """Whether each episode is told of under as many classes as it has, and the interval is what follows."""
    try:
        told = result["classes"]["ci95"]
        held, right = (_numbers(result["classes"][key]) for key in ("episodes", "correct"))
    except (KeyError, TypeError, ValueError):
        return False
    correct = _numbers(result["correct"])
    if held.ndim != 1 or held.shape != right.shape:
        return False
    if not ((held >= 0) & (held <= len(correct)) & (right >= 0) & (right <= correct.sum())).all():
        return False
    a_time = protocol.classes
    if (int(held.sum()), int(right.sum())) != (a_time * len(correct), a_time * int(correct.sum())):
        return False
    scale = 100 / result["queries"]
    found = class_half_width(scale * correct, held, scale * right)
    if found is None or told is None:
        return found is told
    return finite(told, 0, LARGEST) and abs(found - told) < 1e-3


def _tells_of_training(run: dict[str, Any]) -> bool:
    """Whether a training run says how long it took, on what, with which config."""
    config, best = run.get("config"), run.get("best")
    return (
        isinstance(config, dict)
        and whole(config.get("epochs"), 1)
        and whole(config.get("seed"), 0)
        and finite(run.get("seconds"), 0, LARGEST)
        and isinstance(run.get("hardware"), str)
        and (not best or (isinstance(best, dict) and whole(best.get("epoch"), 0)))
    )


def drawable(picture: dict[str, Any]) -> bool:
    """Whether a picture holds rows (N, 2) with their classes, and the paths (steps, W, 2) of W prototypes."""
    try:
        paths = _numbers(picture["paths"])
        steps, way, _ = paths.shape
        parts = [(_numbers(picture[part]), picture[f"{part}_labels"]) for part in ("support", "query")]
        fits = [rows.shape == (len(kinds), 2) and all(whole(c, 0, way - 1) for c in kinds) for rows, kinds in parts]
    except (KeyError, TypeError, ValueError):
        return False
    near = all((np.abs(points) < LARGEST).all() for points in (paths, *(rows for rows, _ in parts)))
    return near and all(fits) and steps > 0 and paths.shape[2] == 2


def _numbers(values: Any) -> np.ndarray:
    """As an array. Raises ValueError where anything else is among them."""
    found = np.array(values)
    if found.dtype.kind not in "iuf":
        raise ValueError("these are no numbers")
    return found


def shown(value: object) -> bool:
    """Whether a chart has room for it."""
    return finite(value, -LARGEST, LARGEST)
