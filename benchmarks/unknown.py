"""Unknown pictures on collections left out of the calibration, each in turn.

    python -m benchmarks.unknown NAME=FEATURES.safetensors … [--episodes 20] [--tasks 10] [--json results/unknown.json]

Feature files of one network and several collections of pictures. The calibration is fitted on all others; the tasks of
the collection left out have 3, 5, 10 and 20 classes, 1, 3 and 5 examples of each, 15 unlabelled pictures per class, and
no foreign pictures or about 30 %. Shown are the share of known pictures that are called unknown, the share of foreign
pictures that are found, and the AUROC of familiarity.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from sklearn.metrics import roc_auc_score

from benchmarks import measure
from protoadapt.core.arrays import checked_rows
from protoadapt.core.features import load_features
from protoadapt.labeling.familiarity import (
    RATE,
    SHOTS,
    TaskAnswers,
    answer_task,
    answered_tasks,
    draw_task,
    fit_thresholds,
    n_foreign,
    threshold_of,
)
from protoadapt.report.tables import markdown

WAYS, PER_CLASS = (3, 5, 10, 20), 15
Kind = tuple[int, int, bool]  # classes, shots, whether there are foreign pictures


def test_tasks(rows: np.ndarray, labels: np.ndarray, tasks: int, seed: int) -> dict[Kind, list[TaskAnswers]]:
    """The answered tasks of one collection, by kind; kinds that need more classes are left out."""
    found: dict[Kind, list[TaskAnswers]] = {}
    classes = len(np.unique(labels))
    for way, shot, foreign in ((w, s, f) for w in WAYS for s in SHOTS for f in (False, True)):
        others = n_foreign(way) if foreign else 0
        if way + others <= classes:
            rng = np.random.default_rng([seed, way, shot, foreign])
            drawn = [draw_task(labels, way, shot, others, rng, PER_CLASS) for _ in range(tasks)]
            found[way, shot, foreign] = [answer_task(rows, task, way) for task in drawn]
    return found


def measured(kinds: Mapping[Kind, Sequence[TaskAnswers]], calibration: Mapping[str, Any]) -> dict[str, Any]:
    """One collection under a calibration: per kind, and over all."""
    cells = []
    for (way, shot, foreign), tasks in kinds.items():
        alarms, hits, areas = [], [], []
        for task in tasks:
            below = task.familiarity < threshold_of(calibration, task.seen, RATE)
            alarms.append(below[task.known].mean())
            if foreign:
                hits.append(below[~task.known].mean())
                areas.append(roc_auc_score(task.known, task.familiarity))
        cell = {"way": way, "shot": shot, "foreign": foreign, "called_unknown": np.mean(alarms)}
        cell |= {"found": np.mean(hits), "auroc": np.mean(areas)} if foreign else {}
        cells.append({key: round(float(v), 4) if isinstance(v, float) else v for key, v in cell.items()})
    alarms = [cell["called_unknown"] for cell in cells]
    return {"called_unknown": round(float(np.mean(alarms)), 4), "cells": cells}


def mean_of(result: Mapping[str, Any], key: str, **only: Any) -> float:
    """The mean of a column over the cells of a collection that have these values."""
    cells = [cell for cell in result["cells"] if key in cell and all(cell[k] == v for k, v in only.items())]
    return float(np.mean([cell[key] for cell in cells]))


def summary(document: Mapping[str, Any]) -> str:
    """Markdown: one row per collection left out, and the mean."""
    header = ["collection left out", "known called unknown", "with none foreign", "with 30 % foreign"]
    header += ["foreign found, 5 classes, 1 / 3 / 5 shots", "AUROC"]
    lines = []
    for name, result in document["collections"].items():
        own = result["task"]
        shares = [own["called_unknown"], *(mean_of(own, "called_unknown", foreign=f) for f in (False, True))]
        found = [mean_of(own, "found", way=5, shot=shot) for shot in SHOTS]
        lines.append([name, *shares, *found, mean_of(own, "auroc")])
    lines.append(["mean", *np.mean([line[1:] for line in lines], 0)])
    rows = [
        [name, *(f"{100 * v:.1f} %" for v in (a, b, c)), " / ".join(f"{100 * v:.0f} %" for v in found)]
        + [f"{area:.2f}"]
        for name, a, b, c, *found, area in lines
    ]
    return markdown(header, rows)


def by_kind(document: Mapping[str, Any]) -> str:
    """Markdown: one row per number of classes and shots, means over the collections."""
    cells = [cell for result in document["collections"].values() for cell in result["task"]["cells"]]
    kinds = sorted({(cell["way"], cell["shot"]) for cell in cells})
    rows = []
    for way, shot in kinds:
        here = [cell for cell in cells if (cell["way"], cell["shot"]) == (way, shot)]
        values = [
            float(
                np.mean([cell[key] for cell in here if key in cell and (foreign is None or cell["foreign"] == foreign)])
            )
            for key, foreign in (("called_unknown", False), ("called_unknown", True), ("found", True), ("auroc", True))
        ]
        share = [f"{100 * value:.1f} %" for value in values[:3]]
        rows.append([f"{way}", f"{shot}", *share, f"{values[3]:.2f}"])
    header = ["classes", "shots", "known called unknown, none foreign", "with 30 % foreign", "foreign found", "AUROC"]
    return markdown(header, rows)


def main() -> None:
    parser = measure.arguments(__doc__, episodes=20, tasks=10, seed=1)
    parser.add_argument("files", nargs="+", metavar="NAME=FILE")
    given = parser.parse_args()
    torch.set_num_threads(1)
    fitted, tested = {}, {}
    for name, _, file in (pair.partition("=") for pair in given.files):
        table = load_features(file)
        rows, labels = checked_rows(table.features, table.labels)
        fitted[name] = list(answered_tasks(rows, labels, WAYS, given.episodes))
        tested[name] = test_tasks(rows.numpy(), labels, given.tasks, given.seed)
        print(name, flush=True)
    collections = {}
    for left, kinds in tested.items():
        calibration = fit_thresholds([tasks for name, tasks in fitted.items() if name != left])
        collections[left] = {"task": measured(kinds, calibration)}
    config = {"episodes": given.episodes, "tasks": given.tasks, "seed": given.seed, "rate": RATE}
    document = {"config": config | {"unlabelled_per_class": PER_CLASS}, "collections": collections}
    print(summary(document), by_kind(document), sep="\n\n")
    measure.write(given.json, document)


if __name__ == "__main__":
    main()
