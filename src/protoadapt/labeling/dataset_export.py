"""Labels as datasets of other tools: Hugging Face `imagefolder`, FiftyOne, Label Studio.

Each is a folder of its own, made from the results of `label` or `predict`, in the format that the tool documents. What
people changed in labels.csv since it was written counts, as it does for `label --support`.

imagefolder    metadata.csv with file_name and label, README.md, and the pictures in a folder per class, as links or
               copies
fiftyone       labels.json and data.json of a FiftyOneImageClassificationDataset; pictures stay where they are
label-studio   tasks.json, guesses as predictions and people's labels as annotations, and config.xml for the project
"""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote
from xml.sax.saxutils import quoteattr

from protoadapt.core.errors import UserError, count, no_such
from protoadapt.core.files import csv_text, json_text, write_text
from protoadapt.core.untrusted import BROKEN, clean_json, finite
from protoadapt.labeling.names import UNKNOWN, from_text, to_folder
from protoadapt.labeling.outputs import SCHEMA
from protoadapt.labeling.sorting import LIST, check_way, sort_pictures
from protoadapt.labeling.support import table_rows
from protoadapt.vision.pictures.formats import is_picture

LOCAL = "/data/local-files/?d="
"""Address of a picture in Label Studio's local storage, before its path in LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT."""
BUCKETS = ("s3://", "gs://", "azure-blob://")
"""How addresses of the cloud storage begin that Label Studio is connected to; names in them are not percent-encoded."""
_SIGNS = "[!#-&(-_a-~]"  # no white space, control characters or quotes
ADDRESS = re.compile(
    rf"(https?:|s3:|gs:|azure-blob:|)//(?![:/?#]|\[[^]]*/|[^/?#]*@([:/?#]|$)){_SIGNS}+|/(?!/){_SIGNS}*"
)
"""Where Label Studio shows pictures from: web servers, / being its own, and cloud storage. A browser loads no file://
of its visitor's, and other schemes may be anything but pictures."""
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
    """One picture of a dataset."""

    path: str  # in a dataset relative to its folder
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
    url : what Label Studio puts before a picture's path: an address of a web server or of BUCKETS.

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
    if form == "label-studio" and not ADDRESS.fullmatch(url):
        raise UserError(
            f"--url is {url!r}, from which Label Studio shows no pictures: write https://HOST/PATH/, s3://BUCKET/, "
            f"gs://, azure-blob:// or / for its own server, without white space, control characters or quotes"
        )
    given, out = Path(labels), Path(out)
    if not given.is_dir() and given.suffix not in (".json", ".csv"):
        raise UserError(f"{str(labels)!r} holds no labels: give the folder that `label` or `predict` wrote, for {form}")
    if images is not None and not os.path.isdir(images):
        raise UserError(f"there is no folder {str(images)!r}: give the one that the labelled pictures are in")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"{str(out)!r} exists and is not an empty folder: give the export a folder of its own")
    folder = given if given.is_dir() else given.parent
    table = given if given.suffix == ".csv" else folder / "labels.csv"
    document, listed = _read(given if given.suffix == ".json" else folder / "labels.json")
    if images is None and not isinstance(document.get("folder"), str):
        raise UserError(f"the labels in {str(folder)!r} do not say where their pictures are: give --images DIR")
    root = images if images is not None else folder / from_text(document["folder"])
    rows = table_rows(table) if table.is_file() else ()
    corrections = {os.path.normpath(row.file): row.label for row in rows if row.is_example}
    files, skipped, changed = [], [], 0
    for file in listed:
        if label := corrections.pop(os.path.normpath(file.name), None):
            changed += label != file.label
            file = file._replace(label=label, confidence=1.0, unknown=label == UNKNOWN, by_person=True)
        path = os.path.normpath(os.path.join(root, file.path))
        if os.path.isfile(path) and is_picture(path):  # a labels.json from elsewhere might name any file
            files.append(file._replace(path=path))
        else:
            skipped.append({"file": file.name, "reason": "there is no such picture any more"})
    if not files:
        raise UserError(f"none of the labelled pictures is in {str(root)!r}: give their folder with --images")
    skipped += [{"file": name, "reason": "labels.json does not have it: label again"} for name in corrections]
    here = os.path.realpath(out)
    if form == "imagefolder":
        placed = _link_pictures(out, files, sort)
    else:
        placed = [file._replace(path=os.path.relpath(os.path.realpath(file.path), here)) for file in files]
    for name, text in FORMS[form](_classes(document, files), placed, url).items():
        write_text(out / name, text)
    return {"pictures": len(files), "corrected": changed, "skipped": skipped}


def _read(labels: Path) -> tuple[dict[str, Any], list[LabelledFile]]:
    """A labels.json of all pictures, checked."""
    try:
        document = clean_json(labels.read_bytes())
        files, names = _files(document), {UNKNOWN, *(one["name"] for one in document["classes"])}
        total = sum(one["found"] + one["support"] for one in document["classes"]) + document.get("no_class", 0)
        right = (file.label in names and isinstance(file.name, str) and finite(file.confidence, 0, 1) for file in files)
        if document["schema"] != SCHEMA or not all(right) or not all(isinstance(name, str) for name in names):
            raise ValueError("of another kind, or a picture lacks its name, label or confidence")
    except BROKEN as error:
        raise UserError(f"{str(labels)!r} is no labels.json of `label` ({error}): give the one in its --out") from error
    if len(files) < total:
        raise UserError(
            f"{str(labels)!r} has {len(files):,} of {count(total, 'picture')} only: read labels.parquet instead"
        )
    return document, files


def _files(document: Mapping[str, Any]) -> list[LabelledFile]:
    """The pictures of a labels.json, their paths relative to its folder of pictures."""
    files = []
    for one in document["pictures"]:
        label = UNKNOWN if one.get("no_class") else one["label"]
        by_person = bool(one["support"] or label == UNKNOWN)
        path = from_text(one["file"])
        files.append(LabelledFile(path, one["file"], label, one["confidence"], bool(one["unknown"]), by_person))
    return files


def _classes(document: Mapping[str, Any], files: Sequence[LabelledFile]) -> list[str]:
    """All classes, and what people wrote besides."""
    return list(dict.fromkeys([*(one["name"] for one in document["classes"]), *(one.label for one in files)]))


def dataset_files(result: Mapping[str, Any], form: str, url: str = LOCAL) -> dict[str, str]:
    """A result of `label` as a dataset of another tool, for a folder that holds the pictures already.

    Parameters
    ----------
    result : as in labels.json.
    form : "imagefolder", "fiftyone" or "label-studio".
    url : what Label Studio puts before a picture's path.

    Returns
    -------
    The text of each file by its name, to be written into the folder that the pictures' names start from.

    Examples
    --------
    >>> [*dataset_files(result, "imagefolder")]
    ['metadata.csv', 'README.md']
    """
    files = _files(result)
    return FORMS[form](_classes(result, files), files, url)


def _link_pictures(out: Path, files: Sequence[LabelledFile], way: str) -> list[LabelledFile]:
    """Puts the pictures of an imagefolder into it; returns those that arrived, with their places.

    A place is in the folder of the class, at the path below the pictures, of an example from elsewhere its name alone.
    Where two would meet, the second is numbered; a disk may not tell A.png from a.png.
    """
    placed: dict[str, LabelledFile] = {}
    for file in files:
        # Bytes that are no text have a backslash in their names, which other tools take for a folder.
        inside = os.path.normpath(file.name.replace("\\", "_"))
        inside = os.path.basename(inside) if inside.startswith("..") or os.path.isabs(inside) else inside
        stem, suffix = os.path.splitext(f"{to_folder(file.label)}/{inside}")
        place, number = stem + suffix, 1
        while place.casefold() in placed:
            number += 1
            place = f"{stem}-{number}{suffix}"
        placed[place.casefold()] = file._replace(path=place)
    pictures = {one.path: file.path for one, file in zip(placed.values(), files)}
    failed = {one.file for one in sort_pictures(out, pictures, way).failed}
    (out / LIST).unlink(missing_ok=True)  # the folder is complete: nothing will update it
    return [one for one in placed.values() if pictures[one.path] not in failed]


def _imagefolder(classes: Sequence[str], files: Sequence[LabelledFile], url: str) -> dict[str, str]:
    rows = [["file_name", "label", "confidence", "unknown", "by_person"]]
    for file in files:
        marks = ["yes" if mark else "no" for mark in (file.unknown, file.by_person)]
        rows.append([file.path, file.label, f"{file.confidence:.4f}", *marks])
    return {"metadata.csv": csv_text(rows), "README.md": CARD}


def _fiftyone(classes: Sequence[str], files: Sequence[LabelledFile], url: str) -> dict[str, str]:
    # FiftyOne takes off the last suffix of a key of data.json to find it in labels.json: a.png and a.jpg stay apart.
    data, targets = {file.name + ".file": file.path for file in files}, {}
    for file in files:
        marks = {"unknown": file.unknown, "by_person": file.by_person}
        targets[file.name] = {"label": classes.index(file.label), "confidence": file.confidence, "attributes": marks}
    return {"data.json": json_text(data), "labels.json": json_text({"classes": list(classes), "labels": targets})}


def _label_studio(classes: Sequence[str], files: Sequence[LabelledFile], url: str) -> dict[str, str]:
    tasks = []
    for file in files:
        value = {"choices": [file.label]}
        result = [{"from_name": "label", "to_name": "image", "type": "choices", "value": value}]
        guess = {"model_version": "protoadapt", "score": file.confidence, "result": result}
        answer = {"annotations": [{"result": result}]} if file.by_person else {"predictions": [guess]}
        name = file.name if url.startswith(BUCKETS) else quote(file.name)
        tasks.append({"data": {"image": url + name, "file": file.name}, **answer})
    choices = "\n".join(f"    <Choice value={quoteattr(name)}/>" for name in classes)
    config = (
        '<View>\n  <Image name="image" value="$image"/>\n  <Choices name="label" toName="image" choice="single">\n'
        f"{choices}\n  </Choices>\n</View>\n"
    )
    return {"tasks.json": json_text(tasks), "config.xml": config}


FORMS: dict[str, Callable[[Sequence[str], Sequence[LabelledFile], str], dict[str, str]]] = {
    "imagefolder": _imagefolder,
    "fiftyone": _fiftyone,
    "label-studio": _label_studio,
}
