"""Result files of a folder, as the pages read them."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from paper.networks import read
from paper.plan import Run, Trial
from protoadapt.core.methods import METHODS, Method, method
from protoadapt.core.results import Record, pack, right_answers
from protoadapt.core.statistics import half_width

NOT_MEASURED = "not measured"
SHOTS = (1, 5)


@dataclass(frozen=True)
class Results:
    """The JSON files of a folder, each read once."""

    folder: Path
    files: dict[str, Record] = field(default_factory=dict)

    def file(self, name: str) -> Record:
        if name not in self.files:
            self.files[name] = read(self.folder / name)
        return self.files[name]

    def of(self, trial: Trial, shot: int) -> list[Record]:
        return [as_of_today(record) for record in self.file(trial.file(shot)).get("results", [])]

    def get(self, trial: Trial, shot: int, spec: str) -> Record | None:
        label = method(spec).label
        return next((r for r in self.of(trial, shot) if r["label"] == label), None)

    def training(self, run: Run) -> Record:
        return self.file(f"{run.name}/train.json")


def settings_as_json(one: Method) -> dict[str, Any]:
    """The settings of a method as JSON has them: lists, not tuples."""
    return json.loads(json.dumps(one.settings))


EARLIER = {"bapa": {"n_iter": 20, "sigma": 0.2}}
"""Defaults of earlier versions of our own method, whose rows keep its name: the results page says which they are."""


def as_of_today(record: Record) -> Record:
    """The record with all that it was run with and today's defaults are not in its label: a default may have changed
    since, and the number of the old one is not that of the method's name today."""
    name, ran_with = record.get("method"), record.get("arguments")
    if name not in METHODS or not isinstance(ran_with, dict):
        return record
    today = settings_as_json(method(name))
    label = record["label"]
    of_its_version = {**today, **EARLIER.get(name, {})}
    changed = [
        f"{k}={v}"
        for k, v in ran_with.items()
        if k in today and v not in (today[k], of_its_version[k]) and f"{k}=" not in label
    ]
    if not changed:
        return record
    given = label.removeprefix(f"{name}").strip("()")
    return {**record, "label": f"{name}({', '.join([given] * bool(given) + changed)})"}


def accuracy(record: Record | None) -> str:
    """Accuracy and 95 % half-width, or that it is not measured."""
    return f"{record['accuracy']:.2f} ± {record['ci95']:.2f}" if record else NOT_MEASURED


def first_episodes(record: Record, episodes: int) -> Record:
    """The record as if only its first episodes had been drawn: episode i does not depend on how many follow."""
    correct = right_answers(record)[:episodes]
    accuracies = 100 * correct / record["queries"]
    shorter = {"accuracy": float(accuracies.mean()), "ci95": half_width(accuracies), "episodes": len(correct)}
    return {**record, **shorter, "correct": pack(correct), "classes": None}
