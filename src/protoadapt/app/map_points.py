"""The 2-D map of a board: all pictures in a plane, and the paths of the prototypes through them.

PCA is there at once. t-SNE takes up to half a minute for thousands of pictures, so it is computed in the background and
asked for again until it is ready.
"""

import threading
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from protoadapt.app.session import Session
from protoadapt.app.worker import computed
from protoadapt.core.errors import UserError
from protoadapt.core.methods.common import unit
from protoadapt.core.projection import plane_paths, principal_plane
from protoadapt.labeling.classifier import METHOD
from protoadapt.labeling.collection import Named, prepared_steps
from protoadapt.labeling.label_methods import make_estimator
from protoadapt.labeling.outputs import UNLABELED

LARGEST = 6000
"""Pictures up to which t-SNE is computed."""


class Maps:
    """The maps of all sessions; of each the newest t-SNE."""

    def __init__(self) -> None:
        self._ready: dict[str, tuple[frozenset[int], int, dict[str, Any]]] = {}
        self._busy: set[str] = set()
        self._lock = threading.Lock()

    def points(self, session: Session, metadata: Mapping[str, Any], kind: str) -> dict[str, Any]:
        """{points: [[x, y] or None per place], paths: {class: [[x, y], …]}, ready: whether it is what was asked for}"""
        with session.lock:
            board, named = session.board, session.named(metadata)
        present = board.present
        if len(present) < 3:
            raise UserError("a map needs three pictures: add more")
        rows, steps, classes = computed(_prepared, board, present, named)
        if kind != "tsne":
            points, paths = computed(principal_plane, rows, steps)
            return _answer(len(board.pictures), present, points, paths, classes)
        if len(present) > LARGEST:
            raise UserError(f"t-SNE is computed for up to {LARGEST:,} pictures: use PCA for {len(present):,}")
        state = frozenset(present), session.revision
        with self._lock:
            ready = self._ready.get(session.id)
            if ready is not None and ready[0] == state[0]:
                return ready[2]  # corrections do not move the pictures: only new pictures need a new map
            if session.id not in self._busy:
                self._busy.add(session.id)
                work = (session.id, state, len(board.pictures), present, rows, steps, classes)
                threading.Thread(target=self._compute, args=work, daemon=True).start()
        return {"ready": False}

    def _compute(self, id_: str, state: Any, size: int, present: Any, rows: Any, steps: Any, classes: Any) -> None:
        try:
            few, codes = np.zeros(len(rows), bool), np.full(len(rows), UNLABELED)
            plane = plane_paths(rows, codes, few, steps.swapaxes(0, 1))
            if plane is not None:
                paths = np.array(plane["steps"]).reshape(len(classes), -1, 2)
                answer = _answer(size, present, np.array(plane["rows"]), paths, classes)
                with self._lock:
                    self._ready[id_] = (*state, answer)
        finally:
            with self._lock:
                self._busy.discard(id_)


def _prepared(board: Any, present: list[int], named: Named | None) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Rows (N, D) as the classifier compares them, steps (W, T, D) of its prototypes, and its classes."""
    rows = np.stack([board.pictures[place].feature for place in present])
    if named is None:
        return unit(torch.from_numpy(rows)).numpy(), np.zeros((0, 1, rows.shape[1]), np.float32), []
    classifier, classes = named.classifier, named.classifier.classes
    number = {name: code for code, name in enumerate(classes)}
    codes = np.array([number.get(board.labels.get(place, ""), UNLABELED) for place in present])
    return *prepared_steps(make_estimator(METHOD, {}), classifier, rows, codes), classes


def _answer(size: int, present: list[int], points: np.ndarray, paths: np.ndarray, classes: list[str]) -> dict[str, Any]:
    every: list[list[float] | None] = [None] * size
    for place, point in zip(present, points.round(4).tolist()):
        every[place] = point
    return {"ready": True, "points": every, "paths": dict(zip(classes, paths.round(4).tolist()))}
