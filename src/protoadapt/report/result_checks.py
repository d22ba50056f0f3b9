"""Result JSON read without trust: one check for the pages, the tables and whoever goes on from a file."""

from contextlib import suppress
from typing import Any

import numpy as np

from protoadapt.core.errors import UserError
from protoadapt.core.records import read_results
from protoadapt.core.untrusted import finite, whole

Result = dict[str, Any]
LARGEST = 1e12  # of seconds, losses and places in a plane: beyond it a chart has no scale


def sound(document: Any) -> dict[str, Any]:
    """A document without what fails its check, for those who can make that again; empty where nothing is left."""
    if not isinstance(document, dict):
        return {}
    if isinstance(document.get("results"), list):
        good: list[Result] = []
        for result in document["results"]:
            with suppress(UserError):
                good += read_results({"results": [result]})
        return {**document, "results": good} if good else {}
    checks = {"protoadapt-run/1": _tells_of_training, "protoadapt-picture/1": drawable}
    return document if any(document.get("schema") == kind and check(document) for kind, check in checks.items()) else {}


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
