"""Result files of a folder, as the pages read them."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from paper.plan import Run, Trial
from paper.rivals import planned_method
from protoadapt.core.errors import UserError, clean_json
from protoadapt.core.results import Record, read_results

NOT_MEASURED = "not measured"
SHOTS = (1, 5)


def read(file: Path) -> dict[str, Any]:
    """A result file; empty where there is none, or one that is damaged or does not fit its own right answers."""
    try:
        document = dict(clean_json(file.read_bytes()))
        return document | ({"results": read_results(document)} if "results" in document else {})
    except Exception:  # it may hold anything
        return {}


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
        """The records of a file; not those of a method that has changed since."""
        return list(filter(is_of_today, self.file(trial.file(shot)).get("results", [])))

    def get(self, trial: Trial, shot: int, spec: str) -> Record | None:
        label = planned_method(spec).label
        return next((r for r in self.of(trial, shot) if r["label"] == label), None)

    def training(self, run: Run) -> Record:
        return self.file(f"{run.name}/train.json")


def is_of_today(record: Record) -> bool:
    """Whether a record's method still is there, with its settings, and those that its label does not name have the
    defaults that it was run with. A setting that has gone is no other method where it was none."""
    try:
        defaults = json.loads(
            json.dumps(planned_method(record.get("method", record["label"])).settings)
        )  # lists, not tuples
    except UserError:
        return False
    return all(
        value == defaults.get(name) or (name in defaults and f"{name}=" in record["label"])
        for name, value in record.get("arguments", {}).items()
    )


def accuracy(record: Record | None) -> str:
    """Accuracy and 95 % half-width, or that it is not measured."""
    return f"{record['accuracy']:.2f} ± {record['ci95']:.2f}" if record else NOT_MEASURED
