"""`predict --out`: predictions as `label` writes its labels, with a report and sorted pictures."""

import json
import os
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from protoadapt.core.errors import UserError
from protoadapt.core.files import unchanged_since_now, write_text
from protoadapt.core.provenance import made_now
from protoadapt.labeling import outputs, thumbnails
from protoadapt.labeling.classifier import load_classifier
from protoadapt.labeling.label_folder import name_in, sorted_places
from protoadapt.labeling.names import from_text
from protoadapt.labeling.predict_pictures import predict
from protoadapt.labeling.sorting import APART, check_folders, check_way, sort_pictures
from protoadapt.labeling.support import check_corrections, table_examples
from protoadapt.labeling.thumbnails import Progress


def predict_folder(
    classifier: str | Path,
    images: Sequence[str | Path],
    out: str | Path,
    *,
    sort: str | None = None,
    sort_unknown: str | None = None,
    model: str | Path | None = None,
    device: str = "cpu",
    on_progress: Progress = lambda stage, done, total: None,
) -> dict[str, Any]:
    """Names pictures one by one (`predict`) and writes labels.csv and labels.json, as `label` does.

    Parameters
    ----------
    classifier, images, model, device, on_progress : as in `predict`.
    out : the folder for the results, not that of `label`.
    sort, sort_unknown : as in `label`.

    Returns
    -------
    What labels.json holds, as `label` returns it: files are relative to the folder that all pictures share.

    Examples
    --------
    >>> predict_folder("named/classifier.safetensors", ["new photos"], "predicted")["classes"][0]["found"]
    12
    """
    out, fitted = Path(out), load_classifier(classifier)
    outputs.check_replaced(out)
    if (out / "classifier.safetensors").exists():
        raise UserError(
            f"{str(out)!r} holds results of label, which would be replaced: choose another folder for --out"
        )
    check_way(sort, sort_unknown)
    if sort is not None:
        check_folders(fitted.classes)
    labels_csv = out / "labels.csv"
    unchanged = unchanged_since_now(labels_csv)
    predicted = predict(classifier, images, model=model, device=device, on_progress=on_progress)
    files = [os.path.abspath(from_text(record["file"])) for record in predicted["pictures"]]
    base = os.path.commonpath([os.path.dirname(file) for file in files])
    if labels_csv.is_file():  # corrections of earlier predictions teach nothing here, but are somebody's work
        check_corrections(labels_csv, table_examples(labels_csv, base, strict=False), lambda file: None)
    records = [record | {"file": name_in(base, file)} for record, file in zip(predicted["pictures"], files)]
    found = Counter(record["label"] for record in records)
    unknown = Counter(record["label"] for record in records if record["unknown"])
    result: dict[str, Any] = {
        "schema": outputs.SCHEMA,
        "title": Path(base).name,
        **made_now(),
        "model": {key: fitted.model[key] for key in ("name", "weights", "size")},
        "method": {"name": "predict", "settings": {}},
        "calibrated": predicted["calibrated"],
        "temperature": fitted.temperature,
        "threshold": fitted.threshold,
        "classes": [
            {"name": name, "support": 0, "found": found[name], "unknown": unknown[name]} for name in fitted.classes
        ],
        "pictures": records,
        "skipped": predicted["skipped"],
        "notes": [],
        "folder": outputs.link_between(out, base),
    }
    thumbnails.add_thumbnails(result, base, {}, out, on_progress)
    write_text(labels_csv, outputs.as_csv(result), unchanged)
    write_text(out / "labels.json", json.dumps(result, ensure_ascii=False, allow_nan=False) + "\n")
    thumbnails.remove_unused(result, out)
    if sort:
        done = sort_pictures(out / "sorted", sorted_places(records, files, base, sort_unknown == APART), sort)
        result["left_alone"] = done.left_alone
        result["skipped"] += outputs.skipped_records(done.failed, partial(name_in, base))
    return result
