"""Labels as datasets of other tools: Hugging Face `imagefolder`, FiftyOne, Label Studio.

Each is a folder of its own, made from the labels.json of `label` or `predict`, in the format that the tool documents:

imagefolder    metadata.csv with file_name and label, and the pictures beside it, as links or copies
fiftyone       labels.json and data.json of a FiftyOneImageClassificationDataset; pictures stay where they are
label-studio   tasks.json, guesses as predictions and people's labels as annotations, and config.xml for the project
"""

import csv
import json
import os
from collections.abc import Callable, Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote
from xml.sax.saxutils import quoteattr

from protoadapt.core.errors import UserError, count, no_such
from protoadapt.core.files import write_json, write_text
from protoadapt.labeling.names import UNKNOWN, from_text
from protoadapt.labeling.outputs import SCHEMA
from protoadapt.labeling.sorting import check_way, sort_pictures
from protoadapt.vision.pictures.formats import is_picture

LARGEST = 1 << 29  # bytes of a labels.json
LOCAL = "/data/local-files/?d="
"""Address of a picture in Label Studio's local storage, before its path in LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT."""


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
    """Writes a labels.json as a dataset of another tool.

    Parameters
    ----------
    labels : labels.json of `label` or `predict`.
    form : "imagefolder", "fiftyone" or "label-studio".
    out : a new or empty folder.
    images : the folder of the pictures, where labels.json does not lead there.
    sort : "link" or "copy" the pictures of an imagefolder.
    url : what Label Studio puts before a picture's path.

    Returns
    -------
    `pictures`, their number, and `skipped`: files that are no longer there.

    Examples
    --------
    >>> export_labels("named/labels.json", "imagefolder", "dataset")["pictures"]
    340
    """
    if form not in FORMS:
        raise no_such("format", form, [*FORMS, "onnx"])
    check_way(sort)
    out = Path(out)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"{str(out)!r} exists and is not an empty folder: give the export a folder of its own")
    classes, files, skipped = _read(Path(labels), images)
    FORMS[form](out, classes, files, {"sort": sort, "url": url})
    return {"pictures": len(files), "skipped": skipped}


def _read(labels: Path, images: str | Path | None) -> tuple[list[str], list[LabelledFile], list[dict[str, str]]]:
    """Classes, the pictures that are there, and those that are not."""
    try:
        if labels.stat().st_size > LARGEST:
            raise ValueError("it is too large")
        document = json.loads(labels.read_bytes())
        records, classes = document["pictures"], [str(one["name"]) for one in document["classes"]]
        if document["schema"] != SCHEMA:
            raise ValueError("it is of another kind")
        total = sum(one["found"] + one["support"] for one in document["classes"])
        known = [record["label"] in classes and isinstance(record["file"], str) for record in records]
        if not all(known):
            raise ValueError("a picture has no valid label")
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise UserError(f"{str(labels)!r} is no labels.json of `label` ({error}): give the one in its --out") from error
    if len(records) < total:
        raise UserError(
            f"{str(labels)!r} holds a sample of {len(records):,} of {count(total, 'picture')}: read labels.parquet "
            f"instead"
        )
    folder = document.get("folder")
    if images is None and not isinstance(folder, str):
        raise UserError(f"{str(labels)!r} does not say where its pictures are: give their folder with --images")
    root = Path(images) if images is not None else labels.parent / from_text(str(folder))
    files, skipped = [], []
    for record in records:
        path = os.path.normpath(os.path.join(root, from_text(record["file"])))
        label = UNKNOWN if record.get("no_class") else record["label"]
        numbers = float(record["confidence"]), bool(record["unknown"])
        if os.path.isfile(path) and is_picture(path):  # a labels.json from elsewhere might name any file
            by_person = bool(record["support"] or record.get("no_class"))
            files.append(LabelledFile(path, record["file"], label, *numbers, by_person))
        else:
            skipped.append({"file": record["file"], "reason": "there is no such picture any more"})
    if not files:
        raise UserError(f"none of the pictures of {str(labels)!r} is in {str(root)!r}: give their folder with --images")
    return [*classes, *({UNKNOWN} & {file.label for file in files})], files, skipped


def _inside(name: str) -> str:
    """A place below a folder for a file that may come from elsewhere, such as an example: ../a/1.png → up/a/1.png.

    Bytes that are no text are written with "_" in place of the backslash, which other tools take for a folder.
    """
    parts = ("up" if part == ".." else part for part in name.replace("\\", "_").split("/") if part not in ("", "."))
    return "/".join(parts)


def _imagefolder(out: Path, classes: Sequence[str], files: Sequence[LabelledFile], options: Mapping[str, str]) -> None:
    places = {_inside(file.name): file.path for file in files}
    done = sort_pictures(out, places, options["sort"])
    (out / ".sorted.json").unlink(missing_ok=True)  # the folder is complete: nothing will update it
    failed = {os.path.realpath(one.file) for one in done.failed}
    text = StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(["file_name", "label", "confidence", "unknown", "by_person"])
    for file in files:
        if os.path.realpath(file.path) not in failed:
            marks = ["yes" if mark else "no" for mark in (file.unknown, file.by_person)]
            writer.writerow([_inside(file.name), file.label, f"{file.confidence:.4f}", *marks])
    write_text(out / "metadata.csv", text.getvalue())


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
