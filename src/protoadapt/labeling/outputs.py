"""What `label` writes: one record per picture, in labels.csv and labels.json."""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from protoadapt.core.files import check_ours, check_output, check_output_folder, csv_text
from protoadapt.labeling.classifier import Answers
from protoadapt.labeling.names import UNKNOWN, class_cell, file_cell, to_text
from protoadapt.labeling.support import BY_CORRECTION, BY_TABLE, CORRECTED, IN_FOLDER, IN_TABLE, PAGE, by_folder
from protoadapt.vision.pictures.walk import Skipped

SCHEMA = "protoadapt-labels/1"
COLUMNS = ("file", "label", "confidence", "runner-up", "margin", "familiarity", "unknown", "guess")
OURS = {
    "labels.json": re.compile(rb'"schema": *"protoadapt-labels/'),
    "classifier.safetensors": re.compile(rb"protoadapt-classifier/"),
    # Version 0.1.0 did not say which kind of page it wrote.
    "report.html": re.compile(rb'\A(?!.*content="protoadapt, (?!labels)).*protoadapt', re.DOTALL),
}
"""What shows that a file was written by `label`, for those that it replaces."""
UNLABELED, NONE_OF_CLASSES = -1, -2
"""In place of a class number: nobody labelled the picture; a person says that it belongs to none of the classes.
(`unknown` is what the classifier suspects.)"""


class Block(NamedTuple):
    """Some pictures with their answers: n pictures, and the features of m unlabelled ones that are in the report."""

    names: Sequence[str]  # (n): clean text (`names.to_text`)
    codes: np.ndarray  # (n): the class that a person gave, UNLABELED or NONE_OF_CLASSES
    origin: np.ndarray  # (n): where that label comes from (`support`)
    answers: Answers
    sampled: np.ndarray  # (n): whether the picture is in the report
    features: np.ndarray  # (m, D): rows for the report's drawing and for suggestions, each row once
    featured: np.ndarray  # (m): the pictures that these are of, as positions among the n
    shard: int = 0
    rows: np.ndarray = np.empty(0, np.int32)  # (n): in the shard of the manifest

    def settled(self) -> "Block":
        """The same with what people said in place of the classifier's answers."""
        support, (best, probability, familiarity, unknown) = self.codes >= 0, self.answers
        first = np.where(support, self.codes, best[:, 0])
        said = self.codes != UNLABELED
        sure = np.where(said[:, None], np.array([1.0, 0.0], probability.dtype), probability)
        unknown = (unknown | (self.codes == NONE_OF_CLASSES)) & ~support
        return self._replace(answers=Answers(np.stack([first, best[:, 1]], 1), sure, familiarity, unknown))

    def records(self, classes: Sequence[str], chosen: np.ndarray | slice = slice(None)) -> list[dict[str, Any]]:
        """One dict per picture, of all pictures or of the chosen ones."""
        names = np.array(self.names, object)[chosen].tolist()
        records = picture_records(names, self.answers.at(chosen), self.codes[chosen], classes)
        for record, origin in zip(records, self.origin[chosen].tolist()):
            said = record["support"] or "no_class" in record
            record["by_table"] = said and origin != IN_FOLDER
            record |= {"corrected": True} if said and origin == CORRECTED else {}
        return records


def picture_records(
    names: Sequence[str], answers: Answers, codes: np.ndarray, classes: Sequence[str]
) -> list[dict[str, Any]]:
    """One dict per picture, of settled answers; codes (n) as in `Block`."""
    records = []
    columns = (part.tolist() for part in (*answers, codes))
    for name, (first, second), (p, q), familiarity, unknown, code in zip(names, *columns):
        runner_up = "" if code != UNLABELED else classes[second]
        record = {"file": name, "label": classes[first], "confidence": round(p, 6), "runner_up": runner_up}
        record |= {"margin": round(p - q, 6), "familiarity": round(familiarity, 6), "unknown": unknown}
        record |= {"thumb": None, "support": code >= 0}
        records.append(record | {"no_class": True} if code == NONE_OF_CLASSES else record)
    return records


def skipped_records(skipped: Sequence[Skipped], name: Callable[[str], str] = to_text) -> list[dict[str, str]]:
    """Files that were left out, each once, with the reason."""
    return [{"file": name(file), "reason": to_text(reason)} for file, reason in dict.fromkeys(skipped)]


def as_csv(result: Mapping[str, Any]) -> str:
    """labels.csv of a result. The column `guess` holds the label before anybody corrects it (see `support`)."""
    rows = []
    for record in result["pictures"]:
        label, runner_up = class_cell(record["label"]), class_cell(record["runner_up"])
        answered = result["calibrated"] or record["support"]
        unknown = ("yes" if record["unknown"] else "no") if answered else "uncalibrated"
        confidence, margin, familiarity = (f"{record[key]:.4f}" for key in ("confidence", "margin", "familiarity"))
        guess = origin_mark(record) if record["support"] else label
        if record.get("no_class"):  # a person's word needs no calibration
            label, unknown, guess = UNKNOWN, "yes", origin_mark(record)
        rows.append([file_cell(record["file"]), label, confidence, runner_up, margin, familiarity, unknown, guess])
    return csv_text([COLUMNS, *rows])


def origin_mark(record: Mapping[str, Any]) -> str:
    """What `guess` says of an example, so that it comes back with the same origin (see `support`)."""
    origin = CORRECTED if record.get("corrected") else IN_TABLE if record.get("by_table") else IN_FOLDER
    if record.get("by_page"):
        return PAGE[origin]
    return {CORRECTED: BY_CORRECTION, IN_TABLE: BY_TABLE}.get(origin) or by_folder(
        UNKNOWN if record.get("no_class") else record["label"]
    )


def check_replaced(out: Path) -> None:
    """Raises UserError, before any work is done, where a file of another kind would be replaced."""
    check_output_folder(out)
    check_output(out / "labels.csv")  # whose labels are compared later
    for name, mark in OURS.items():
        check_ours(out / name, mark)


def link_between(out: Path, folder: str | Path) -> str | None:
    """The relative path from the results to the pictures; None where it would reveal the layout of the disk."""
    here, there = os.path.abspath(out), os.path.abspath(folder)
    if os.path.splitdrive(there)[0] != os.path.splitdrive(here)[0]:
        return None
    common = os.path.commonpath([there, here])
    return None if os.path.dirname(common) == common else to_text(os.path.relpath(there, here))
