"""The JSON documents that a report is made of, beside results: their schemas, and paths read without trust."""

from typing import Any, NamedTuple

import numpy as np

from protoadapt.core.errors import UserError
from protoadapt.core.records import LARGEST
from protoadapt.core.untrusted import finite, whole

RUN, TASK = "protoadapt-run/1", "protoadapt-task/1"
PATHS, OLD_PATHS = "protoadapt-paths/1", "protoadapt-picture/1"


class Paths(NamedTuple):
    """Rows and the positions of the prototypes in the plane."""

    rows: np.ndarray  # (N, 2)
    labels: np.ndarray  # (N), −1: none
    support: np.ndarray  # (N): whether the row is a labelled example
    steps: list[np.ndarray]  # per class, (T, 2)


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
        if not len(rows) == len(labels) == len(support) or not all(map(len, steps)):
            raise ValueError("rows, their classes and whether they are labelled differ in number")
        if not all(whole(label, -1) for label in labels) or (steps and max(labels, default=-1) >= len(steps)):
            raise ValueError("a class is not the number of a prototype")
        return Paths(rows, np.array(labels, int), support, steps)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UserError("the paths of the prototypes cannot be drawn: write the file again") from error


def _from_old_paths(document: dict[str, Any]) -> dict[str, Any]:
    """The older form: support and query apart, steps (T, W, 2)."""
    support, query = document["support"], document["query"]
    labels = [*document["support_labels"], *document["query_labels"]]
    if len(support) != len(document["support_labels"]) or -1 in labels:
        raise ValueError("every row has a class")
    examples = [True] * len(support) + [False] * len(query)
    steps = np.array(document["paths"]).swapaxes(0, 1)
    return {"rows": [*support, *query], "row_label": labels, "support": examples, "steps": steps}


def _points(values: Any) -> np.ndarray:
    """(N, 2) finite coordinates. Raises ValueError."""
    points = np.array(values)
    points = points.reshape(0, 2) if points.shape == (0,) else points
    if points.dtype.kind not in "iuf" or points.shape[1:] != (2,) or not (np.abs(points) < LARGEST).all():
        raise ValueError("points of the plane have two finite coordinates")
    return points.astype(float)


def plottable(value: object) -> bool:
    """Whether a value is a number that an axis can show."""
    return finite(value, -LARGEST, LARGEST)
