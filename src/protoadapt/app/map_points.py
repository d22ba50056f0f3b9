"""The 2-D map of a board: all pictures in a plane, and the paths of the prototypes through them.

PCA is there at once. t-SNE takes up to half a minute for thousands of pictures, so it is computed in the background and
asked for again until it is ready.
"""

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any

import numpy as np
import torch

from protoadapt.app.session import Session, computed
from protoadapt.core.errors import UserError
from protoadapt.core.methods.common import unit
from protoadapt.core.projection import plane_paths, principal_plane
from protoadapt.labeling import DEFAULT_METHOD
from protoadapt.labeling.collection import Named, few_steps, prepared_path
from protoadapt.labeling.label_methods import make_estimator
from protoadapt.labeling.outputs import UNLABELED

_LARGEST = 6000
"""Pictures up to which t-SNE is computed."""


def map_points(session: Session, metadata: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """{points: [[x, y] or None per place], paths: {class: [[x, y], …]}, ready: whether it is what was asked for}"""
    with session.lock:
        board, named = session.board, session.named(metadata)
        present, (known, newest) = board.present, session.tsne or ([], None)
        if len(present) < 3:
            raise UserError("a map needs three pictures: add more")
        if kind == "tsne" and len(present) > _LARGEST:
            raise UserError(f"t-SNE is computed for up to {_LARGEST:,} pictures: use PCA for {len(present):,}")
        if kind == "tsne" and newest and not newest.done():
            return {"ready": False}
        if kind == "tsne" and newest and known == present:  # corrections do not move the pictures
            return newest.result()
        rows, steps, classes = computed(_prepared, board, present, named)
        answer = partial(_answer, len(board.pictures), present, classes)
        if kind != "tsne":
            return answer(*computed(principal_plane, rows, steps))
        session.tsne = present, Future()
        threading.Thread(target=_compute, args=(session.tsne[1], rows, steps, answer), daemon=True).start()
    return {"ready": False}


def _compute(future: "Future[dict[str, Any]]", rows: Any, steps: Any, answer: Callable[..., dict[str, Any]]) -> None:
    few, codes = np.zeros(len(rows), bool), np.full(len(rows), UNLABELED)
    try:
        plane = plane_paths(rows, codes, few, steps.swapaxes(0, 1))
        found = answer(np.array(plane["rows"]), np.array(plane["steps"])) if plane else {"ready": False}
        future.set_result(found)
    except Exception as error:  # who asks gets it
        future.set_exception(error)


def _prepared(board: Any, present: list[int], named: Named | None) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Rows (N, D) as the classifier compares them, steps (W, T, D) of its prototypes, and its classes."""
    rows = np.stack([board.pictures[place].feature for place in present])
    if named is None:
        return unit(torch.from_numpy(rows)).numpy(), np.zeros((0, 1, rows.shape[1]), np.float32), []
    classifier, classes = named.classifier, named.classifier.classes
    number = {name: code for code, name in enumerate(classes)}
    codes = np.array([number.get(board.labels.get(place, ""), UNLABELED) for place in present])
    prepared, path = prepared_path(make_estimator(DEFAULT_METHOD, {}), classifier, rows, codes)
    return prepared, few_steps(path), classes


def _answer(size: int, present: list[int], classes: list[str], points: np.ndarray, paths: np.ndarray) -> dict[str, Any]:
    every: list[list[float] | None] = [None] * size
    for place, point in zip(present, points.round(4).tolist()):
        every[place] = point
    return {"ready": True, "points": every, "paths": dict(zip(classes, paths.round(4).tolist()))}
