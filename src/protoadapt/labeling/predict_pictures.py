"""`predict`: names for pictures one by one, by a classifier that `label` wrote.

Nothing here loads torch where the network's graph is in the user's cache (`networks.load_for_files`): a picture is
named in the time that loading torch would take.
"""

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from protoadapt.core.errors import UserError
from protoadapt.labeling.classifier import load_classifier
from protoadapt.labeling.names import to_text
from protoadapt.labeling.outputs import UNLABELED, Output, name_in, picture_records, result_head, skipped_records
from protoadapt.labeling.pictures import embed_pictures, load_same, pictures_of
from protoadapt.labeling.sorting import check_way
from protoadapt.labeling.support import Examples
from protoadapt.labeling.thumbnails import Progress
from protoadapt.vision import networks
from protoadapt.vision.pictures.walk import Listing


class Predicted(NamedTuple):
    """The pictures of a result and where they are, as a `Collection` has them."""

    root: str
    files: Sequence[str]
    contents: Mapping[str, bytes]


def predict(
    classifier: str | Path,
    images: Sequence[str | Path],
    *,
    out: str | Path | None = None,
    sort: str | None = None,
    sort_unknown: str | None = None,
    model: str | Path | None = None,
    device: str = "cpu",
    page: Callable[[dict[str, Any]], str] | None = None,
    on_progress: Progress = lambda stage, done, total: None,
) -> dict[str, Any]:
    """Names pictures one by one with a classifier that `label` wrote; nothing is fitted.

    Parameters
    ----------
    classifier : classifier.safetensors.
    images : pictures, and folders of pictures.
    out : a folder that gets labels.csv and labels.json as `label` writes them, not that of `label`; None: no file.
    sort, sort_unknown, page : with `out`, as in `label`.
    model : the network, where it is not found under the name that the classifier keeps; its weights must be the same.
    device : "cpu", "cuda", …
    on_progress : called with "pictures embedded", how many are done, and of how many.

    Returns
    -------
    `pictures`: one record per picture with file, label, confidence, runner_up, margin and unknown; `classes`, `model`,
    `calibrated`, and `skipped` files with reasons. With `out`, what labels.json holds, as `label` returns it: files are
    relative to the folder that all pictures have in common.

    Examples
    --------
    >>> predict("named/classifier.safetensors", ["new.jpg"])["pictures"][0]["label"]
    'oak'
    """
    fitted, output = load_classifier(classifier), Output(out, sort, sort_unknown, page) if out is not None else None
    check_way(sort, sort_unknown, fitted.classes)
    if output and (output.folder / "classifier.safetensors").exists():
        raise UserError(
            f"{str(out)!r} holds results of label, which would be replaced: choose another folder for --out"
        )
    given = Listing([], [])
    for path in map(str, images):
        if not os.path.lexists(path):
            raise UserError(f"there is no picture {to_text(path)!r}: check the name")
        found = pictures_of(path) if os.path.isdir(path) else Listing([path], [])
        given = Listing([*given.files, *found.files], [*given.skipped, *found.skipped])
    views = fitted.model.get("views", 1)
    load = networks.load_for_files if views == 1 else networks.load
    network = load_same(
        model, fitted.model["name"], fitted.model["weights"], "the classifier was", lambda name: load(name, device)
    )
    _, content_of, store, _, skipped = embed_pictures(given, Examples([], [], []), network, None, on_progress, views)
    content = {file: one for file in given.files if (one := content_of[file]) is not None}
    answers, codes = fitted.answer(store.rows(list(content.values()))), np.full(len(content), UNLABELED)
    if output is None:
        return {
            "schema": "protoadapt-predictions/1",
            "model": fitted.model,
            "calibrated": fitted.threshold is not None,
            "classes": fitted.classes,
            "pictures": picture_records(list(map(to_text, content)), answers, codes, fitted.classes),
            "skipped": skipped_records(skipped),
        }
    files = [os.path.abspath(file) for file in content]
    base = os.path.commonpath([os.path.dirname(file) for file in files])
    output.check_corrections(lambda example: False, base)  # they teach nothing here, but are somebody's work
    names = [name_in(base, file) for file in files]
    records = picture_records(names, answers, codes, fitted.classes)
    result = result_head(Path(base).name, fitted, {"name": "predict", "settings": {}})
    named = Counter(record["label"] for record in records)
    unknown = Counter(record["label"] for record in records if record["unknown"])
    result["classes"] = [
        {"name": name, "support": 0, "found": named[name], "unknown": unknown[name]} for name in fitted.classes
    ]
    result |= {"pictures": records, "skipped": skipped_records(skipped), "notes": []}
    output.write(result, records, None, Predicted(base, files, dict(zip(names, content.values()))), (), on_progress)
    return result
