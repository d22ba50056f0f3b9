"""Labels as datasets of other tools: Hugging Face `imagefolder`, FiftyOne, Label Studio, photo libraries.

Each is a folder of its own, made from the results of `label` or `predict`, in the format that the tool documents. What
people changed in labels.csv since it was written counts, as it does for `label --support`.

imagefolder    metadata.csv with file_name and label, README.md, and the pictures in a folder per class, as links or
               copies
fiftyone       labels.json and data.json of a FiftyOneImageClassificationDataset; pictures stay where they are
label-studio   tasks.json, guesses as predictions and people's labels as annotations, and config.xml for the project
xmp            a file PICTURE.xmp with the label as keyword for each picture of the folder, to be laid beside it
"""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import escape, quoteattr

from protoadapt.core.errors import UserError, clean_json, finite, for_terminal, intact, no_such
from protoadapt.core.files import csv_text, json_text, scratch_folder, write_text
from protoadapt.labeling.names import UNKNOWN, from_text, to_folder
from protoadapt.labeling.outputs import SCHEMA
from protoadapt.labeling.sorting import check_way, put
from protoadapt.labeling.support import table_rows
from protoadapt.vision.pictures.formats import is_picture

_Picture = dict[str, Any]
"""A record of labels.json, with `path` and `by_person`."""
LOCAL = "/data/local-files/?d="
"""Address of a picture in Label Studio's local storage, before its path in LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT."""
BUCKETS = ("s3://", "gs://", "azure-blob://")
"""How addresses of the cloud storage begin that Label Studio is connected to; names in them are not percent-encoded."""
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

SIDECAR = """<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>
<x:xmpmeta xmlns:x="adobe:ns:meta/">
 <rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">
  <rdf:Description rdf:about="" xmlns:dc="http://purl.org/dc/elements/1.1/">
   <dc:subject><rdf:Bag><rdf:li>{}</rdf:li></rdf:Bag></dc:subject>
  </rdf:Description>
 </rdf:RDF>
</x:xmpmeta>
<?xpacket end="w"?>
"""
"""An XMP file with one keyword (Dublin Core's subject)."""


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
    form : "imagefolder", "fiftyone", "label-studio" or "xmp".
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
    given, out = Path(labels), Path(out)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"{str(out)!r} exists and is not an empty folder: give the export a folder of its own")
    folder = given.parent if given.suffix in (".json", ".csv") else given
    table = given if given.suffix == ".csv" else folder / "labels.csv"
    document, listed = _read(given if given.suffix == ".json" else folder / "labels.json")
    if images is None and not isinstance(document.get("folder"), str):
        raise UserError(f"the labels in {str(folder)!r} do not say where their pictures are: give --images DIR")
    root = images if images is not None else folder / from_text(document["folder"])
    rows = table_rows(table) if table.is_file() else ()
    corrections = {os.path.normpath(row.file): row.label for row in rows if row.is_example}
    pictures, skipped, changed = [], [], 0
    for one in listed:
        if label := corrections.pop(os.path.normpath(one["file"]), None):
            changed += label != one["label"]
            one |= {"label": label, "confidence": 1.0, "unknown": label == UNKNOWN, "by_person": True}
        path = os.path.normpath(os.path.join(root, one["path"]))
        if os.path.isfile(path) and is_picture(path):  # a labels.json from elsewhere might name any file
            pictures.append(one | {"path": path})
        else:
            skipped.append({"file": one["file"], "reason": "there is no such picture any more"})
    if not pictures:
        raise UserError(f"none of the labelled pictures is in {str(root)!r}: give their folder with --images")
    skipped += [{"file": name, "reason": "labels.json does not have it: label again"} for name in corrections]
    out.parent.mkdir(parents=True, exist_ok=True)
    with scratch_folder(out.parent, ".protoadapt-export-") as new:
        if form == "imagefolder":
            _place(new, out, pictures, sort)
        for one in pictures if form == "fiftyone" else ():
            one["path"] = os.path.relpath(os.path.realpath(one["path"]), os.path.realpath(out))
        for name, text in FORMS[form](_classes(document, pictures), pictures, url).items():
            write_text(new / name, text)
        if out.exists():
            out.rmdir()  # empty: an error where another process has filled it meanwhile
        new.rename(out)
    return {"pictures": len(pictures), "corrected": changed, "skipped": skipped}


def _read(labels: Path) -> tuple[dict[str, Any], list[_Picture]]:
    """A labels.json of all pictures, checked."""
    with intact(f"{str(labels)!r} is no labels.json of `label`", "give the one in its --out"):
        document = clean_json(labels.read_bytes())
        pictures = _pictures(document)
        total = sum(one["found"] + one["support"] for one in document["classes"]) + document.get("no_class", 0)
        whole = all(finite(one["confidence"], 0, 1) for one in pictures)
        if document["schema"] != SCHEMA or not whole or {*map(type, _classes(document, pictures))} != {str}:
            raise ValueError("of another kind, or a picture lacks its label or confidence")
    if len(pictures) < total:
        raise UserError(f"{str(labels)!r} has {len(pictures):,} of {total:,} pictures: read labels.parquet instead")
    return document, pictures


def _pictures(document: Mapping[str, Any]) -> list[_Picture]:
    """The pictures of a labels.json, with `path`, relative to its folder of pictures, and `by_person`."""
    pictures = []
    for one in document["pictures"]:
        said = {"label": UNKNOWN} if one.get("no_class") else {}
        marks = {"unknown": bool(one["unknown"]), "by_person": bool(one["support"] or said)}
        pictures.append(one | said | marks | {"path": from_text(one["file"])})
    return pictures


def _classes(document: Mapping[str, Any], pictures: Sequence[_Picture]) -> list[str]:
    """All classes, and what people wrote besides."""
    return list(dict.fromkeys([one["name"] for one in document["classes"]] + [one["label"] for one in pictures]))


def dataset_files(result: Mapping[str, Any], form: str) -> dict[str, str]:
    """A result of `label` as a dataset of another tool, for a folder that holds the pictures already.

    Parameters
    ----------
    result : as in labels.json.
    form : "imagefolder", "fiftyone", "label-studio" or "xmp".

    Returns
    -------
    The text of each file by its name, to be written into the folder that the pictures' names start from.

    Examples
    --------
    >>> [*dataset_files(result, "imagefolder")]
    ['metadata.csv', 'README.md']
    """
    pictures = _pictures(result)
    return FORMS[form](_classes(result, pictures), pictures, LOCAL)


def _place(new: Path, out: Path, pictures: Sequence[_Picture], way: str) -> None:
    """Puts the pictures of an imagefolder into the folder `new`, which becomes `out`.

    A place is in the folder of the class, at the path below the pictures, of an example from elsewhere its name alone.
    Where two would meet, the second is numbered; a disk may not tell A.png from a.png.
    """
    taken: set[str] = set()
    for one in pictures:
        # Bytes that are no text have a backslash in their names, which other tools take for a folder.
        inside = os.path.normpath(one["file"].replace("\\", "_"))
        inside = os.path.basename(inside) if inside.startswith("..") or os.path.isabs(inside) else inside
        place = f"{to_folder(one['label'])}/{inside}"
        (stem, suffix), number = os.path.splitext(place), 1
        while place.casefold() in taken:
            place, number = f"{stem}-{number + 1}{suffix}", number + 1
        put(new / place, one["path"], way, out / place)
        taken.add(place.casefold())
        one["path"] = place


def _imagefolder(classes: Sequence[str], pictures: Sequence[_Picture], url: str) -> dict[str, str]:
    rows = [["file_name", "label", "confidence", "unknown", "by_person"]]
    for one in pictures:
        marks = ["yes" if one[mark] else "no" for mark in ("unknown", "by_person")]
        rows.append([one["path"], one["label"], f"{one['confidence']:.4f}", *marks])
    return {"metadata.csv": csv_text(rows), "README.md": CARD}


def _fiftyone(classes: Sequence[str], pictures: Sequence[_Picture], url: str) -> dict[str, str]:
    # FiftyOne takes off the last suffix of a key of data.json to find it in labels.json: a.png and a.jpg stay apart.
    data, targets = {one["file"] + ".file": one["path"] for one in pictures}, {}
    for one in pictures:
        marks = {mark: one[mark] for mark in ("unknown", "by_person")}
        place = classes.index(one["label"])
        targets[one["file"]] = {"label": place, "confidence": one["confidence"], "attributes": marks}
    return {"data.json": json_text(data), "labels.json": json_text({"classes": list(classes), "labels": targets})}


def _label_studio(classes: Sequence[str], pictures: Sequence[_Picture], url: str) -> dict[str, str]:
    tasks = []
    for one in pictures:
        value = {"choices": [one["label"]]}
        result = [{"from_name": "label", "to_name": "image", "type": "choices", "value": value}]
        guess = {"model_version": "protoadapt", "score": one["confidence"], "result": result}
        answer = {"annotations": [{"result": result}]} if one["by_person"] else {"predictions": [guess]}
        name = one["file"] if url.startswith(BUCKETS) else quote(one["file"])
        tasks.append({"data": {"image": url + name, "file": one["file"]}, **answer})
    choices = "\n".join(f"    <Choice value={quoteattr(name)}/>" for name in classes)
    config = (
        '<View>\n  <Image name="image" value="$image"/>\n  <Choices name="label" toName="image" choice="single">\n'
        f"{choices}\n  </Choices>\n</View>\n"
    )
    return {"tasks.json": json_text(tasks), "config.xml": config}


def _xmp(classes: Sequence[str], pictures: Sequence[_Picture], url: str) -> dict[str, str]:
    sidecars = {}
    for one in pictures:
        place = os.path.normpath(from_text(one["file"]))
        if not (place.startswith("..") or os.path.isabs(place)):  # an example from elsewhere
            keyword = for_terminal(UNKNOWN if one["unknown"] else one["label"])
            sidecars[f"{place}.xmp"] = SIDECAR.format(escape(keyword))
    return sidecars


FORMS: dict[str, Callable[[Sequence[str], Sequence[_Picture], str], dict[str, str]]] = {
    "imagefolder": _imagefolder,
    "fiftyone": _fiftyone,
    "label-studio": _label_studio,
    "xmp": _xmp,
}
