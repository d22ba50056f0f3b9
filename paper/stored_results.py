"""Result files of a folder, as the pages read them."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from paper.networks import read
from paper.plan import Run, Trial
from protoadapt.core.errors import UserError
from protoadapt.core.methods import method
from protoadapt.core.results import Record, pack, right_answers
from protoadapt.core.statistics import half_width

NOT_MEASURED = "not measured"
EARLIER = "°"
"""Marks a number of a method that has changed since."""
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
        return self.file(trial.file(shot)).get("results", [])

    def get(self, trial: Trial, shot: int, spec: str) -> Record | None:
        label = method(spec).label
        return next((r for r in self.of(trial, shot) if r["label"] == label), None)

    def training(self, run: Run) -> Record:
        return self.file(f"{run.name}/train.json")


def settings_as_json(spec: str) -> dict[str, Any]:
    """The settings of a method as JSON has them: lists, not tuples."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in method(spec).settings.items()}


def is_of_today(record: Record) -> bool:
    """Whether the method that a record names would be run with the settings that it was run with.

    A setting that the record does not state had its default.
    """
    try:
        today = settings_as_json(record["label"])
    except UserError:  # a method or a setting that there is no more
        return False
    return {**today, **record.get("arguments", {})} == today


def marked(record: Record) -> str:
    """The label of a record, with a mark where the method has changed since."""
    return record["label"] if is_of_today(record) else f"{record['label']} {EARLIER}"


def accuracy(record: Record | None) -> str:
    """Accuracy and 95 % half-width, or that it is not measured."""
    if not record:
        return NOT_MEASURED
    mark = "" if is_of_today(record) else f" {EARLIER}"
    return f"{record['accuracy']:.2f} ± {record['ci95']:.2f}{mark}"


def first_episodes(record: Record, episodes: int) -> Record:
    """The record as if only its first episodes had been drawn: episode i does not depend on how many follow."""
    correct = right_answers(record)[:episodes]
    accuracies = 100 * correct / record["queries"]
    shorter = {"accuracy": float(accuracies.mean()), "ci95": half_width(accuracies), "episodes": len(correct)}
    return {**record, **shorter, "correct": pack(correct), "classes": None}
