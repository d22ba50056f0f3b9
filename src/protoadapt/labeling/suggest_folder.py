"""`suggest`: which pictures of a folder to label next, as a table to fill in."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from protoadapt.core.errors import UserError, count, whole_number
from protoadapt.core.files import csv_text
from protoadapt.labeling.classifier import METHOD
from protoadapt.labeling.label_methods import make_estimator
from protoadapt.labeling.names import class_cell, file_cell
from protoadapt.labeling.outputs import name_in, skipped_records
from protoadapt.labeling.pictures import Embedded, embed_folder, pictures_collection
from protoadapt.labeling.suggest import next_record, suggest_first
from protoadapt.labeling.support import Examples, class_names, one_per_picture, read_support, table_examples
from protoadapt.labeling.thumbnails import Progress, write_thumbnails
from protoadapt.vision.pictures.decode import PREVIEW

SCHEMA = "protoadapt-next/1"
COLUMNS = ("file", "label", "likely", "runner-up", "reason")
MOST = 1000
"""Pictures that can be suggested at once; nobody labels more before looking again."""


def suggest_folder(
    images: str | Path,
    out: str | Path,
    support: Sequence[str | Path] = (),
    *,
    n: int = 20,
    model: str | Path,
    cache: str | Path | None = None,
    device: str = "cpu",
    on_progress: Progress = lambda stage, done, total: None,
) -> dict[str, Any]:
    """The pictures of a folder whose labels would teach most (`suggest.suggest`), the most useful first.

    Parameters
    ----------
    images : the folder of pictures, at any depth.
    out : the folder that gets the small pictures and features; `next_table` is the table for it.
    support : labels so far, as in `label`; any number of classes, or none.
    n : number of pictures, 1 to 1,000.
    model, cache, device, on_progress : as in `label`.

    Returns
    -------
    `pictures`: `file`, `label` and `runner_up` (the likely classes, where there are two), `kind`, `stands_for`,
    `reason` and `preview`, the name of a small picture; `skipped` files with reasons; `notes` as in `label`.

    Examples
    --------
    >>> suggest_folder("photos", "named", n=3, model="lite0")["pictures"][0]["reason"]
    'typical of its group; 41 similar pictures without a label'
    """
    whole_number("n", n, 1, MOST)
    examples = read_support(support, images, least=0)
    embedded = embed_folder(images, Path(out), examples, model, cache, device, on_progress)
    if len(class_names(examples.examples)) < 2:
        records = _first_labels(images, examples, embedded, n)
    else:
        collection = pictures_collection(images, examples, embedded, device)
        result = collection.name(make_estimator(METHOD, {}, device), paths=False, n_next=n).result
        likely = {one["file"]: {key: one[key] for key in ("label", "runner_up")} for one in result["pictures"]}
        records = [one | likely[one["file"]] for one in result["next"]]
    if not records:
        raise UserError(f"there is nothing left to learn in {str(images)!r}: every picture is labelled or certain")
    notes = examples.notes()
    if len(records) < n:
        fewer = count(len(records), "picture is", "pictures are")
        notes.append(f"{fewer} suggested and not {n:,}: the others are labelled, certain, unreadable or copies")
    file_of = {name_in(images, file): file for file in embedded.files}
    files = [file_of[one["file"]] for one in records]
    wanted = [(file, embedded.content_of[file], PREVIEW) for file in files]
    for record, small in zip(records, write_thumbnails(wanted, Path(out))):
        record["preview"] = small
    return {
        "schema": SCHEMA,
        "title": Path(images).resolve().name,
        "pictures": records,
        "skipped": skipped_records(embedded.skipped, lambda file: name_in(images, file)),
        "notes": notes,
    }


def _first_labels(images: str | Path, examples: Examples, embedded: Embedded, n: int) -> list[dict[str, Any]]:
    """Suggestions while there are labels of fewer than two classes, and so no classifier."""
    files, content_of, store, *_ = embedded
    labelled = one_per_picture((content_of[example.file], example) for example in examples.examples)
    file_of = {content: file for file in reversed(files) if (content := content_of[file]) is not None}
    contents = [*file_of, *(content for content in labelled if content not in file_of)]
    codes = np.array([0 if content in labelled else -1 for content in contents])
    found = suggest_first(store.rows(contents), codes, n)
    return [next_record(one, {"file": name_in(images, file_of[contents[one.row]])}) for one in found]


def next_table(result: Mapping[str, Any], images: str | Path, table: Path, support: Sequence[str | Path] = ()) -> str:
    """next.csv: a line per suggestion with an empty label to fill in.

    Lines of the table that is about to be replaced stay if somebody wrote a label into them.
    """
    kept: dict[str, str] = {}
    if table.is_file():
        for example in table_examples(table, images, support, strict=False):
            kept[name_in(images, example.file)] = example.label
    rows = [[file_cell(file), class_cell(label), "", "", "labelled"] for file, label in kept.items()]
    for one in result["pictures"]:
        if one["file"] not in kept:
            likely = [class_cell(one.get(key) or "") for key in ("label", "runner_up")]
            rows.append([file_cell(one["file"]), "", *likely, one["reason"]])
    return csv_text([COLUMNS, *rows])
