"""Labels as datasets of other tools: Hugging Face `imagefolder`, FiftyOne, Label Studio.

Each is a folder of its own, made from the results of `label` or `predict`, in the format that the tool documents. What
people changed in labels.csv since it was written counts, as it does for `label --support`.

imagefolder    metadata.csv with file_name and label, README.md, and the pictures in a folder per class, as links or
               copies
fiftyone       labels.json and data.json of a FiftyOneImageClassificationDataset; pictures stay where they are
label-studio   tasks.json, guesses as predictions and people's labels as annotations, and config.xml for the project
"""

import os
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote
from xml.sax.saxutils import quoteattr

from protoadapt.core.errors import UserError, count, no_such
from protoadapt.core.files import csv_text, write_json, write_text
from protoadapt.core.untrusted import clean_json, finite
from protoadapt.labeling.names import UNKNOWN, from_text, to_folder
from protoadapt.labeling.outputs import SCHEMA
from protoadapt.labeling.sorting import check_way, sort_pictures
from protoadapt.labeling.support import Row, table_rows
from protoadapt.vision.pictures.formats import is_picture

LARGEST = 1 << 29  # bytes of a labels.json
LOCAL = "/data/local-files/?d="
"""Address of a picture in Label Studio's local storage, before its path in LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT."""

CARD = """---
configs:
- config_name: default
  data_files:
  - split: train
    path: "**"
---
"""
"""README.md of an imagefolder. Without it Hugging Face would take a folder or file that is called train or test for a
split of that name, and leave out all other pictures."""


class LabelledFile(NamedTuple):
    """One picture that is there."""

    path: str
    name: str  # relative to the folder of the pictures
    label: str
    confidence: float
    unknown: bool
    by_person: bool


def export_labels(
    labels: str | Path,
    form: str,
    out: str | Path,
    *,
    images: str | Path | None = None,
    sort: str = "link",
    url: str = LOCAL,
) -> dict[str, Any]:
    """Writes labels as a dataset of another tool.

    Parameters
    ----------
    labels : the output folder of `label` or `predict`, or the labels.json or labels.csv in it; the labels.csv may have
        another name. Corrections in it count.
    form : "imagefolder", "fiftyone" or "label-studio".
    out : a new or empty folder.
    images : the folder of the pictures, where labels.json does not lead there.
    sort : "link" or "copy" the pictures of an imagefolder.
    url : what Label Studio puts before a picture's path.

    Returns
    -------
    `pictures`, their number; `corrected`, how many labels differ from what was guessed; `skipped`: files that are no
    longer there, or that only labels.csv names.

    Examples
    --------
    >>> export_labels("named", "imagefolder", "dataset")
    {'pictures': 340, 'corrected': 12, 'skipped': []}
    """
    if form not in FORMS:
        raise no_such("format", form, [*FORMS, "onnx"])
    check_way(sort)
    out = Path(out)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"{str(out)!r} exists and is not an empty folder: give the export a folder of its own")
    folder = Path(labels) if os.path.isdir(labels) else Path(labels).parent
    table = Path(labels) if Path(labels).suffix == ".csv" else folder / "labels.csv"
    document = _document(Path(labels) if Path(labels).suffix == ".json" else folder / "labels.json")
    corrections = _corrections(table) if table.is_file() else {}
    changed = _corrected(document, corrections)
    files, skipped = _files(document, folder, images)
    skipped += [{"file": name, "reason": "labels.json does not have it: label again"} for name in corrections]
    classes = list(dict.fromkeys(chain((one["name"] for one in document["classes"]), (one.label for one in files))))
    FORMS[form](out, classes, files, {"sort": sort, "url": url})
    return {"pictures": len(files), "corrected": changed, "skipped": skipped}


def _corrections(table: Path) -> dict[str, Row]:
    """The rows of a labels.csv that a person wrote or confirmed, by file."""
    return {os.path.normpath(row.file): row for row in table_rows(table) if row.is_example}


def _corrected(document: Mapping[str, Any], corrections: dict[str, Row]) -> int:
    """Puts corrections in place, which takes them off the list; returns the number of labels that changed."""
    changed = 0
    for record in document["pictures"]:
        if row := corrections.pop(os.path.normpath(record["file"]), None):
            changed += row.label != (UNKNOWN if record.get("no_class") else record["label"])
            none = {"no_class": True} if row.label == UNKNOWN else {}
            record.pop("no_class", None)
            record |= {"label": row.label, "confidence": 1.0, "unknown": bool(none), "support": not none, **none}
    return changed


def _document(labels: Path) -> dict[str, Any]:
    """A labels.json of all pictures, checked."""
    try:
        if labels.stat().st_size > LARGEST:
            raise ValueError("it is too large")
        document = clean_json(labels.read_bytes())
        records, classes = document["pictures"], [one["name"] for one in document["classes"]]
        if document["schema"] != SCHEMA or not all(isinstance(name, str) for name in classes):
            raise ValueError("it is of another kind")
        total = sum(one["found"] + one["support"] for one in document["classes"])
        for record in records:
            if not (
                record["label"] in classes and isinstance(record["label"], str) and isinstance(record["file"], str)
            ):
                raise ValueError("a picture has no valid label")
            if not (finite(record["confidence"], 0, 1) and record.keys() >= {"unknown", "support"}):
                raise ValueError(f"{record['file'][:100]!r} has no confidence")
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise UserError(f"{str(labels)!r} is no labels.json of `label` ({error}): give the one in its --out") from error
    if len(records) < total:
        raise UserError(
            f"{str(labels)!r} holds a sample of {len(records):,} of {count(total, 'picture')}: read labels.parquet "
            f"instead"
        )
    return document


def _files(
    document: Mapping[str, Any], beside: Path, images: str | Path | None
) -> tuple[list[LabelledFile], list[dict[str, str]]]:
    """The pictures that are there, and those that are not; beside: the folder of the labels.json."""
    folder = document.get("folder")
    if images is None and not isinstance(folder, str):
        raise UserError(f"the labels in {str(beside)!r} do not say where their pictures are: give --images DIR")
    root = Path(images) if images is not None else beside / from_text(str(folder))
    files, skipped = [], []
    for record in document["pictures"]:
        path = os.path.normpath(os.path.join(root, from_text(record["file"])))
        label = UNKNOWN if record.get("no_class") else record["label"]
        numbers = float(record["confidence"]), bool(record["unknown"])
        if os.path.isfile(path) and is_picture(path):  # a labels.json from elsewhere might name any file
            by_person = bool(record["support"] or record.get("no_class"))
            files.append(LabelledFile(path, record["file"], label, *numbers, by_person))
        else:
            skipped.append({"file": record["file"], "reason": "there is no such picture any more"})
    if not files:
        raise UserError(f"none of the labelled pictures is in {str(root)!r}: give their folder with --images")
    return files, skipped


def _places(files: Sequence[LabelledFile]) -> list[str]:
    """A place in the folder of its class for each picture: at its path below the pictures, an example from elsewhere
    by its name alone. Where two would meet, the second is numbered; a disk may not tell A.png from a.png."""
    places: dict[str, str] = {}
    for file in files:
        # Bytes that are no text have a backslash in their names, which other tools take for a folder.
        inside = os.path.normpath(file.name.replace("\\", "_"))
        inside = os.path.basename(inside) if inside.startswith("..") or os.path.isabs(inside) else inside
        place, number = f"{to_folder(file.label)}/{inside}", 1
        stem, suffix = os.path.splitext(place)
        while place.casefold() in places:
            place, number = f"{stem}-{number + 1}{suffix}", number + 1
        places[place.casefold()] = place
    return list(places.values())


def _imagefolder(out: Path, classes: Sequence[str], files: Sequence[LabelledFile], options: Mapping[str, str]) -> None:
    places = _places(files)
    done = sort_pictures(out, dict(zip(places, (file.path for file in files))), options["sort"])
    (out / ".sorted.json").unlink(missing_ok=True)  # the folder is complete: nothing will update it
    failed = {os.path.realpath(one.file) for one in done.failed}
    rows = [["file_name", "label", "confidence", "unknown", "by_person"]]
    for place, file in zip(places, files):
        if os.path.realpath(file.path) not in failed:
            marks = ["yes" if mark else "no" for mark in (file.unknown, file.by_person)]
            rows.append([place, file.label, f"{file.confidence:.4f}", *marks])
    write_text(out / "metadata.csv", csv_text(rows))
    write_text(out / "README.md", CARD)


def _fiftyone(out: Path, classes: Sequence[str], files: Sequence[LabelledFile], options: Mapping[str, str]) -> None:
    # FiftyOne takes off the last suffix of a key of data.json to find it in labels.json: a.png and a.jpg stay apart.
    here = os.path.realpath(out)
    data = {file.name + ".file": os.path.relpath(os.path.realpath(file.path), here) for file in files}
    targets = {
        file.name: {
            "label": classes.index(file.label),
            "confidence": file.confidence,
            "attributes": {"unknown": file.unknown, "by_person": file.by_person},
        }
        for file in files
    }
    write_json(out / "data.json", data)
    write_json(out / "labels.json", {"classes": list(classes), "labels": targets})


def _label_studio(out: Path, classes: Sequence[str], files: Sequence[LabelledFile], options: Mapping[str, str]) -> None:
    tasks = []
    for file in files:
        value = {"choices": [file.label]}
        result = [{"from_name": "label", "to_name": "image", "type": "choices", "value": value}]
        said = {"result": result}
        guess = {"model_version": "protoadapt", "score": file.confidence, **said}
        task: dict[str, Any] = {"data": {"image": options["url"] + quote(file.name), "file": file.name}}
        task |= {"annotations": [said]} if file.by_person else {"predictions": [guess]}
        tasks.append(task)
    choices = "\n".join(f"    <Choice value={quoteattr(name)}/>" for name in classes)
    config = (
        '<View>\n  <Image name="image" value="$image"/>\n  <Choices name="label" toName="image" choice="single">\n'
        f"{choices}\n  </Choices>\n</View>\n"
    )
    write_json(out / "tasks.json", tasks)
    write_text(out / "config.xml", config)


FORMS: dict[str, Callable[[Path, Sequence[str], Sequence[LabelledFile], Mapping[str, str]], None]] = {
    "imagefolder": _imagefolder,
    "fiftyone": _fiftyone,
    "label-studio": _label_studio,
}
