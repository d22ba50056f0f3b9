"""The JSON documents that a report is made of, read without trust: one check for pages, tables and the paper."""

from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from protoadapt.core.errors import UserError
from protoadapt.core.records import LARGEST, Record, read_results
from protoadapt.core.untrusted import finite, whole

RUN, TASK = "protoadapt-run/1", "protoadapt-task/1"
PATHS, OLD_PATHS = "protoadapt-paths/1", "protoadapt-picture/1"


class Paths(NamedTuple):
    """Rows and the positions of the prototypes in the plane."""

    rows: np.ndarray  # (N, 2)
    labels: np.ndarray  # (N), −1: none
    support: np.ndarray  # (N): whether the row is a labelled example
    steps: list[np.ndarray]  # per class, (T, 2)


def sound(document: Any) -> dict[str, Any]:
    """Return a document without the results that fail their check, for callers that can compute those again.

    Empty where nothing is left; a training run or the paths of prototypes are kept whole or not at all.
    """
    if not isinstance(document, dict):
        return {}
    if isinstance(document.get("results"), list):
        good: list[Record] = []
        for result in document["results"]:
            with suppress(UserError):
                good += read_results({"results": [result]})
        return {**document, "results": good} if good else {}
    checks = {RUN: _is_run, PATHS: _has_paths, OLD_PATHS: _has_paths}
    check = checks.get(str(document.get("schema")))
    return document if check and check(document) else {}


def _is_run(run: dict[str, Any]) -> bool:
    """Whether a training run holds its config, its duration and its hardware."""
    config, best = run.get("config"), run.get("best")
    return (
        isinstance(config, dict)
        and whole(config.get("epochs"), 1)
        and whole(config.get("seed"), 0)
        and finite(run.get("seconds"), 0, LARGEST)
        and isinstance(run.get("hardware"), str)
        and (not best or (isinstance(best, dict) and whole(best.get("epoch"), 0)))
    )


def _has_paths(document: dict[str, Any]) -> bool:
    with suppress(UserError):
        return bool(paths_of(document).steps)
    return False


def paths_of(document: Any) -> Paths:
    """Return the plane coordinates in a document of `core.projection`, in its older form too.

    Raises
    ------
    UserError : where rows, classes and steps do not fit together, or a coordinate is not a finite number.
    """
    try:
        if document.get("schema") == OLD_PATHS:
            document = _from_old_paths(document)
        rows, steps = _points(document["rows"]), [_points(positions) for positions in document["steps"]]
        labels, support = document["row_label"], np.array(document["support"], bool)
        last = len(steps) - 1 if steps else None
        if not len(rows) == len(labels) == len(support) or not all(map(len, steps)):
            raise ValueError("rows, their classes and whether they are labelled differ in number")
        if not all(whole(label, -1, *([] if last is None else [last])) for label in labels):
            raise ValueError("a class is not the number of a prototype")
        return Paths(rows, np.array(labels, int), support, steps)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UserError("the paths of the prototypes cannot be drawn: write the file again") from error


def _from_old_paths(document: dict[str, Any]) -> dict[str, Any]:
    """The older form: support and query apart, steps (T, W, 2)."""
    support, query = document["support"], document["query"]
    labels = [*document["support_labels"], *document["query_labels"]]
    steps = _numbers(document["paths"])
    if len(support) != len(document["support_labels"]) or not all(whole(label, 0) for label in labels):
        raise ValueError("a class is not the number of a prototype")
    shown = [True] * len(support) + [False] * len(query)
    return {"rows": [*support, *query], "row_label": labels, "support": shown, "steps": steps.swapaxes(0, 1).tolist()}


def _points(values: Any) -> np.ndarray:
    """(N, 2) finite coordinates. Raises ValueError."""
    points = _numbers(values).astype(float)
    points = points.reshape(0, 2) if points.shape == (0,) else points
    if points.ndim != 2 or points.shape[1] != 2 or not (np.abs(points) < LARGEST).all():
        raise ValueError("points of the plane have two finite coordinates")
    return points


def _numbers(values: Any) -> np.ndarray:
    """As an array. Raises ValueError where anything is not a number."""
    array = np.array(values)
    if array.dtype.kind not in "iuf":
        raise ValueError("not numbers")
    return array


def plottable(value: object) -> bool:
    """Whether a value is a number that an axis can show."""
    return finite(value, -LARGEST, LARGEST)
