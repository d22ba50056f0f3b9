"""`check`: faults of labelled pictures, in a folder of class folders or a table."""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from protoadapt.core.errors import UserError, count
from protoadapt.core.files import csv_text
from protoadapt.core.methods.common import unit
from protoadapt.core.prototype_model import power_transform
from protoadapt.core.provenance import made_now
from protoadapt.labeling.check import Faults, find_faults
from protoadapt.labeling.names import UNKNOWN, class_cell, file_cell, to_text
from protoadapt.labeling.outputs import name_in, skipped_records
from protoadapt.labeling.pictures import embed_pictures
from protoadapt.labeling.support import class_names, read_support, table_rows
from protoadapt.labeling.thumbnails import Progress, write_thumbnails
from protoadapt.vision import networks
from protoadapt.vision.pictures.decode import THUMB
from protoadapt.vision.pictures.walk import Listing

SCHEMA = "protoadapt-check/1"
COLUMNS = ("file", "label", "fault", "detail", "score", "group")
EXAMPLES = 12
"""Pictures of a pair of confused classes that are named."""
PICTURED = 500
"""Pictures with a fault that the page shows; check.csv has all."""


def check_folder(
    sources: Sequence[str | Path],
    out: str | Path,
    *,
    images: str | Path | None = None,
    model: str | Path,
    cache: str | Path | None = None,
    device: str = "cpu",
    on_progress: Progress = lambda stage, done, total: None,
) -> dict[str, Any]:
    """Looks for faults in labelled pictures (`check.find_faults`).

    Parameters
    ----------
    sources : folders with one folder of pictures per class, and csv files with the columns `file` and `label`.
    out : the folder that gets small pictures and features; `check_table` is the table for it.
    images : the folder in which files of tables are looked up; by default that of the table.
    model, cache, device, on_progress : as in `label`.

    Returns
    -------
    What check.json holds: `suspects` (file, label, likely, p_label, p_likely), `duplicates` (files, identical,
    contradicts), `outliers` (file, label, similarity), `confused` (classes, pictures: how many, share, files: the first
    of them), each the worst first;
    `checked`, the number of pictures; `classes`; `pictures`, one record for each with a fault; `skipped`, `notes`.

    Examples
    --------
    >>> check_folder(["pictures"], "checked", model="lite0")["suspects"][0]["likely"]
    'oak'
    """
    if images is not None and not os.path.isdir(images):
        raise UserError(f"there is no folder {str(images)!r}: give the one that the files of the table are in")
    out, base = Path(out), Path(images or (sources[0] if os.path.isdir(sources[0]) else Path(sources[0]).parent))
    examples = read_support(sources, base, least=1, option="--images")
    network = networks.load_for_files(model, device)
    embedded = embed_pictures(Listing([], []), examples, network, cache or out / ".features", on_progress)
    labels: dict[bytes, dict[str, str]] = {}  # of each content: labels by file
    for example in examples.examples:
        if (content := embedded.content_of[example.file]) is not None and example.label != UNKNOWN:
            labels.setdefault(content, {})[example.file] = example.label
    if not labels:
        why = f" ({to_text(embedded.skipped[-1].file)!r}: {embedded.skipped[-1].reason})" if embedded.skipped else ""
        raise UserError(f"no labelled picture can be read{why}: give other pictures")
    classes = class_names(examples.examples)
    number = {name: code for code, name in enumerate(classes)}
    codes = np.array([number[next(iter(of.values()))] if len({*of.values()}) == 1 else -1 for of in labels.values()])
    rows = power_transform(torch.from_numpy(embedded.store.rows(list(labels))).float(), 0.5, "auto")
    faults = find_faults(unit(rows - rows.mean(0)).numpy(), codes)
    files = {name_in(base, file): (file, content) for content, of in labels.items() for file in of}
    document = _document(faults, [{name_in(base, file): of[file] for file in of} for of in labels.values()], classes)
    shown = document["pictures"][:PICTURED]
    for record, small in zip(shown, write_thumbnails([(*files[one["file"]], THUMB) for one in shown], out)):
        record["thumb"] = small
    notes, tables = examples.notes(), (Path(source) for source in sources if os.path.isfile(source))
    if guesses := sum(bool(row.label) and not row.is_example for table in tables for row in table_rows(table)):
        notes.append(f"{count(guesses, 'label is', 'labels are')} a guess of `label` that nobody changed: not checked")
    if single := [classes[code] for code in np.flatnonzero(np.bincount(codes[codes >= 0]) == 1)]:
        alone = f"{count(len(single), 'class has', 'classes have')} one picture only, whose label cannot be checked"
        notes.append(f"{alone}, such as {single[0]!r}")
    return {
        "schema": SCHEMA,
        "title": to_text(base.resolve().name),
        **made_now(),
        "model": {key: embedded.metadata[key] for key in ("model", "weights", "size")},
        **document,
        "skipped": skipped_records(embedded.skipped, lambda file: name_in(base, file)),
        "notes": notes,
    }


def _document(faults: Faults, labels: Sequence[Mapping[str, str]], classes: Sequence[str]) -> dict[str, Any]:
    """Faults of rows as faults of files. labels: of each row the labels by file."""
    suspects, outliers = [], []
    duplicates: list[dict[str, Any]] = []
    confused: list[dict[str, Any]] = []
    first = [{"file": file, "label": of[file]} for of in labels for file in [next(iter(of))]]
    for row, likely, *p in faults.suspects:
        p_label, p_likely = (round(value, 5) for value in p)
        suspects.append(first[row] | {"likely": classes[likely], "p_label": p_label, "p_likely": p_likely})
    grouped = {row for group in faults.duplicates for row in group}
    identical = [[row] for row, of in enumerate(labels) if len(of) > 1 and row not in grouped]
    for group in [*faults.duplicates, *identical]:
        files = [{"file": file, "label": label} for row in group for file, label in labels[row].items()]
        contradicts = len({one["label"] for one in files}) > 1
        duplicates.append({"files": files, "identical": len(group) == 1, "contradicts": contradicts})
    duplicates.sort(key=lambda one: (not one["contradicts"], -len(one["files"])))
    for row, similarity in faults.outliers:
        outliers.append(first[row] | {"similarity": round(similarity, 4)})
    for pair, inside, share in faults.confused:
        files, names = [first[row] for row in inside[:EXAMPLES]], [classes[code] for code in pair]
        confused.append({"classes": names, "pictures": len(inside), "share": round(share, 4), "files": files})
    found = [*suspects, *(file for one in duplicates for file in one["files"]), *outliers]
    found += [file for one in confused for file in one["files"]]
    pictures = {one["file"]: {"file": one["file"], "label": one["label"], "thumb": None} for one in found}
    sizes = Counter(label for of in labels for label in of.values())
    return {
        "checked": sizes.total(),
        "classes": [{"name": name, "pictures": sizes[name]} for name in classes],
        **{"suspects": suspects, "duplicates": duplicates, "outliers": outliers, "confused": confused},
        "pictures": list(pictures.values()),
    }


def check_table(document: Mapping[str, Any]) -> str:
    """check.csv: a line per picture and fault (`label`, `duplicate` or `outlier`), the worst first."""
    rows: list[Sequence[str]] = [COLUMNS]

    def line(one: Mapping[str, Any], fault: str, detail: str, score: float | None = None, group: str = "") -> None:
        number = "" if score is None else f"{score:.4f}"
        rows.append([file_cell(one["file"]), class_cell(one["label"]), fault, class_cell(detail), number, group])

    for one in document["suspects"]:
        line(one, "label", one["likely"], one["p_label"])
    for group, of in enumerate(document["duplicates"], 1):
        kind = "identical" if of["identical"] else "near-duplicate"
        for one in of["files"]:
            line(one, "duplicate", kind + (", other label" if of["contradicts"] else ""), group=str(group))
    for one in document["outliers"]:
        line(one, "outlier", "resembles no other picture", one["similarity"])
    return csv_text(rows)
