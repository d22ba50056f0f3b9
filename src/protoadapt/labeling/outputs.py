"""What `label` tells: one plain dict, from which labels.json, labels.csv and the report are made."""

import csv
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

from protoadapt.core.files import written_whole
from protoadapt.core.provenance import versions
from protoadapt.core.threads import ahead
from protoadapt.labeling.classifier import Answers, Classifier
from protoadapt.labeling.names import UNKNOWN, class_cell, file_cell, to_text
from protoadapt.labeling.support import BY_PAGE, BY_TABLE, by_folder
from protoadapt.vision.pictures.decode import PREVIEW, THUMB, data_url, thumbnail
from protoadapt.vision.pictures.read import read_file
from protoadapt.vision.pictures.walk import Skipped

SCHEMA = "protoadapt-labels/1"
COLUMNS = ("file", "label", "confidence", "runner-up", "margin", "unknown", "guess")
THUMBS = 2000
"""At most so many pictures are shown: some four kilobytes of the report each."""
UNSURE, STRANGE = 24, 200
"""Pictures that are shown large, as people look at them first: the least certain, and those that may be of no class."""
WEIGHT = 4
"""Thumbnails that a large one takes the place of, so that the report stays as small."""


def picture_rows(
    names: Sequence[str], answers: Answers, given: np.ndarray, classes: Sequence[str]
) -> list[dict[str, Any]]:
    """A dict a picture. given (n): the class that the picture was given, or -1."""
    rows = []
    columns = (part.tolist() for part in (*answers, given))
    for name, (first, second), (p, q), unknown, code in zip(names, *columns):
        row = {"file": name, "label": classes[first], "confidence": round(p, 6), "runner_up": classes[second]}
        row |= {"margin": round(p - q, 6), "unknown": unknown, "thumb": None, "support": False}
        if code >= 0:  # nobody was asked
            row |= {"label": classes[code], "confidence": 1.0, "runner_up": "", "margin": 1.0}
            row |= {"unknown": False, "support": True}
        rows.append(row)
    return rows


def tell(
    title: str,
    rows: list[dict[str, Any]],
    given: Sequence[int],
    classifier: Classifier,
    about: Mapping[str, Any],
    method: dict[str, Any],
) -> dict[str, Any]:
    """The dict, still without the pictures that could not be read, thumbnails and paths. given (W): shots a class."""
    found = Counter(row["label"] for row in rows if not row["support"])
    return {
        "schema": SCHEMA,
        "title": title,
        "made": datetime.now().astimezone().isoformat(timespec="seconds"),
        "model": {"name": classifier.model["name"], "dataset": about["trained_on"]}
        | {key: classifier.model[key] for key in ("weights", "size")},
        "method": method,
        "calibrated": classifier.threshold is not None,
        "temperature": classifier.temperature,
        "threshold": classifier.threshold,
        "versions": versions(),
        "classes": [{"name": n, "support": shots, "found": found[n]} for n, shots in zip(classifier.classes, given)],
        "pictures": rows,
        "skipped": [],
        "paths": None,
    }


def tell_skipped(skipped: Sequence[Skipped], name: Callable[[str], str]) -> list[dict[str, str]]:
    return [{"file": name(file), "reason": to_text(reason)} for file, reason in dict.fromkeys(skipped)]


def as_csv(told: Mapping[str, Any]) -> str:
    """labels.csv. `guess` is what a label was before anybody corrected it (see `support`)."""
    text = StringIO(newline="")
    writer = csv.writer(text)  # lines end in \r\n, as the standard has it: so names that hold either are quoted
    writer.writerow(COLUMNS)
    for row in told["pictures"]:
        label, runner_up = class_cell(row["label"]), class_cell(row["runner_up"])
        unknown = ("yes" if row["unknown"] else "no") if told["calibrated"] or row["support"] else "uncalibrated"
        numbers = [f"{row[key]:.4f}" for key in ("confidence", "margin")]
        by = BY_PAGE if row.get("by_page") else BY_TABLE if row.get("by_table") else by_folder(row["label"])
        guess = by if row["support"] else label
        if row.get("no_class"):  # somebody says that it is of no class
            label, unknown = UNKNOWN, "yes"
        writer.writerow([file_cell(row["file"]), label, numbers[0], runner_up, numbers[1], unknown, guess])
    return text.getvalue()


def write_text(path: Path, text: str, check: Callable[[], None] = lambda: None) -> None:
    """UTF-8, lines as they are, whole or not at all. `check` may still refuse, right before the file is replaced."""
    with written_whole(path) as partial:
        partial.write_bytes(text.encode())
        check()


def write_json(path: Path, told: Mapping[str, Any]) -> None:
    write_text(path, json.dumps(told, ensure_ascii=False, allow_nan=False) + "\n")


def way_to(folder: str | Path, out: Path) -> str | None:
    """From the results to the pictures, for links; None where it would tell how this machine's disk is laid out."""
    there, here = os.path.abspath(folder), os.path.abspath(out)
    if os.path.splitdrive(there)[0] != os.path.splitdrive(here)[0]:
        return None
    common = os.path.commonpath([there, here])
    return None if os.path.dirname(common) == common else to_text(os.path.relpath(there, here))


def shown(rows: Sequence[Mapping[str, Any]], most: int = THUMBS) -> list[int]:
    """Which rows get a thumbnail: the least certain half, and of each class an even spread of the others."""
    if len(rows) <= most:
        return list(range(len(rows)))
    order = sorted(range(len(rows)), key=lambda i: (rows[i]["confidence"], i))
    chosen = order[: most // 2]
    others: dict[str, list[int]] = {}
    for i in order[most // 2 :]:
        others.setdefault(rows[i]["label"], []).append(i)
    each = max(1, (most - len(chosen)) // len(others))
    for members in others.values():
        places = np.linspace(0, len(members) - 1, min(each, len(members))).round().astype(int)
        chosen += [members[place] for place in places]
    return sorted(chosen[:most])


def pictured(rows: Sequence[Mapping[str, Any]]) -> list[tuple[int, str, int]]:
    """(row, key, pixels a side) of what the report shows: a `thumb`, and of what people look at first a `preview`."""
    named = [i for i, row in enumerate(rows) if not row["support"] and not row["unknown"]]
    unsure = sorted(named, key=lambda i: (rows[i]["confidence"], rows[i]["margin"], rows[i]["file"]))
    strange = sorted((i for i, row in enumerate(rows) if row["unknown"]), key=lambda i: -rows[i]["confidence"])
    large = unsure[:UNSURE] + strange[:STRANGE]
    small = shown(rows, THUMBS - WEIGHT * len(large))
    return [(i, "thumb", THUMB) for i in small] + [(i, "preview", PREVIEW) for i in large]


def thumbnails(wanted: Sequence[tuple[str, bytes, int]], cache: Path) -> Iterator[str | None]:
    """A data URL for each (file, content, pixels a side), kept by content; None where the file has gone since."""

    def work(one: tuple[str, bytes, int]) -> str | None:
        file, content, side = one
        kept = cache / ".thumbs" / f"{content.hex()}{f'-{side}' if side != THUMB else ''}.jpg"
        try:
            if not kept.is_file():
                small = thumbnail(read_file(file), side)
                with written_whole(kept) as partial:
                    partial.write_bytes(small)
            return data_url(kept.read_bytes())
        except Exception:  # it was a picture a moment ago; without a thumbnail its label is still right
            return None

    return ahead(work, wanted, 64)
