"""How pictures of a board resemble each other: why one is called what it is, and which labels look wrong."""

from typing import Any

import numpy as np

from protoadapt.app.board import NAMED, Board
from protoadapt.core.errors import UserError
from protoadapt.core.prototype_model import as_numpy, unit
from protoadapt.labeling.check import find_faults
from protoadapt.labeling.collection import Named
from protoadapt.labeling.explain import reasons_of
from protoadapt.labeling.names import UNKNOWN
from protoadapt.labeling.suggest import centred

NEAREST, MOST_BESIDE, SIMILAR = 4, 3, 60
"""Examples of a class that a picture is shown beside, and of so many classes; pictures that are found to be similar."""


def alike(board: Board, named: Named | None, place: int) -> dict[str, Any]:
    """Why a picture is called what it is: `reasons`, as sentences, and `examples` with their resemblance by class, the
    two likeliest first, then the class of the nearest example. `similar`: the pictures most like it.
    """
    present = board.present
    rows = np.stack([board.pictures[one].feature for one in present])
    u = unit(as_numpy(named.classifier.prepare(rows))) if named else centred(rows)
    resemblance = u @ u[present.index(place)]
    nearest = [i for i in np.argsort(-resemblance, kind="stable").tolist() if present[i] != place]
    record = named.result["pictures"][present.index(place)] if named else {}
    of_class: dict[str, list[Any]] = {name: [] for name in (record.get("label"), record.get("runner_up")) if name}
    for i in nearest:
        if (name := board.labels.get(present[i], UNKNOWN)) != UNKNOWN:
            of_class.setdefault(name, []).append([present[i], round(float(resemblance[i]), 2)])
    examples = {name: found[:NEAREST] for name, found in list(of_class.items())[:MOST_BESIDE]}
    reasons = reasons_of(record, named.classifier.threshold) if named and not record["support"] else []
    return {"reasons": reasons, "examples": examples, "similar": [present[i] for i in nearest[:SIMILAR]]}


def faults(board: Board) -> list[dict[str, Any]]:
    """What `check` finds among the labels of a board: groups with a `title`, and the places of their pictures as `ids`;
    each picture is in one group at most."""
    if len(board.used) < NAMED:
        raise UserError("there is nothing to check yet: give a picture of each of two classes its name")
    present, classes = board.present, board.used
    number = {name: code for code, name in enumerate(classes)}
    codes = np.array([number.get(board.labels.get(place, ""), -1) for place in present])
    found = find_faults(centred(np.stack([board.pictures[place].feature for place in present])), codes)
    groups = [("Almost the same picture", rows) for rows in found.duplicates]
    for row, likely, *_ in found.suspects:
        groups.append((f"Labelled {classes[codes[row]]}, looks like {classes[likely]}", [row]))
    groups += [("Resemble no other picture", [row for row, _ in found.outliers])]
    seen: set[int] = set()
    shown = []
    for title, rows in groups:
        places = [present[row] for row in rows if row not in seen]
        seen.update(rows)
        shown += [{"title": title, "ids": places}] if places else []
    return shown
