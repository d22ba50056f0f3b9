"""The verb `suggest`: which pictures of a folder to label next, as next.csv, next.json and a page."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from protoadapt.core.errors import UserError, whole_number
from protoadapt.core.files import csv_text, file_cell
from protoadapt.core.methods.unnamed import first_groups
from protoadapt.labeling import DEFAULT_METHOD, DEFAULT_MODEL
from protoadapt.labeling.label_methods import make_estimator
from protoadapt.labeling.label_pictures import embed_folder, pictures_collection
from protoadapt.labeling.names import class_cell, file_of, name_in
from protoadapt.labeling.outputs import UNLABELED, Output, Page, Progress, write_thumbnails
from protoadapt.labeling.suggest import centred, next_record, suggest
from protoadapt.labeling.support import read_support, table_examples
from protoadapt.vision.pictures.decode import PREVIEW

_SCHEMA = "protoadapt-next/1"
_COLUMNS = ("file", "label", "likely", "runner_up", "reason")
_MOST = 1000
"""Pictures that can be suggested at once; nobody labels more before looking again."""


def suggest_folder(
    images: str | Path,
    out: str | Path,
    support: Sequence[str | Path] = (),
    *,
    n: int = 20,
    model: str | Path = DEFAULT_MODEL,
    cache: str | Path | None = None,
    device: str = "cpu",
    page: Page | None = None,
    on_progress: Progress = lambda stage, done, total: None,
) -> dict[str, Any]:
    """Finds the pictures of a folder whose labels would teach most (`suggest`) and writes next.csv and next.json.

    Parameters
    ----------
    images : the folder of pictures, at any depth.
    out : the folder that gets them, with small pictures and features.
    support : labels so far, as in `label`; any number of classes, or none.
    n : number of pictures, 1 to 1,000.
    model, cache, device, on_progress : as in `label`.
    page : makes `out`/next.html, such as `protoadapt.report.picture_pages.next_page`; None: no page.

    Returns
    -------
    What next.json holds: `pictures`, the most useful first: `file`, `label` and `runner_up` (the likely classes, where
    there are two), `stands_for`, `reason` and `preview`, the name of a small picture; `skipped` files with
    reasons; `notes` as in `label`.

    Examples
    --------
    >>> suggest_folder("photos", "named", n=3, model="lite0")["pictures"][0]["reason"]
    'typical of its group; 41 similar pictures without a label'
    """
    whole_number("n", n, 1, _MOST)
    output = Output(out, "next", page, support)
    examples = read_support(support, images, least=0)
    embedded = embed_folder(images, output.folder, examples, model, cache, device, on_progress)
    collection = pictures_collection(images, examples, embedded)
    if len(collection.classes) < 2:
        assert collection.table is not None  # the rows are in memory
        (rows, codes, row), names = collection.table, list(collection.contents)
        found = suggest(centred(rows), np.where(codes == UNLABELED, -1, 0), n, groups=first_groups(rows))
        records = [next_record(one, names[row.tolist().index(one.row)]) for one in found]
    else:
        estimator = make_estimator(DEFAULT_METHOD, {}, device)
        records = collection.name(estimator, paths=False, n_next=n).result["next"]
    if not records:
        raise UserError(f"there is nothing left to learn in {str(images)!r}: every picture is labelled or certain")
    files = [one["file"] for one in records]
    wanted = [(file_of(images, file), collection.contents[file], PREVIEW) for file in files]
    document = {
        "schema": _SCHEMA,
        "title": collection.title,
        "pictures": records,
        "skipped": collection.skipped,
        "notes": collection.notes,
    }
    with output.alone():
        for record, small in zip(records, write_thumbnails(wanted, output.folder)):
            record["preview"] = small
        output.write_table(next_table(document, images, output.csv, support))
        output.write_document(document)
    return document


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
    return csv_text([_COLUMNS, *rows])
