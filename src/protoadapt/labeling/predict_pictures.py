"""`predict`: names for pictures one by one, by a classifier that `label` wrote.

Nothing here loads torch where the network's graph is in the user's cache (`networks.load_for_files`): a picture is
named in the time that loading torch would take.
"""

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from protoadapt.core.errors import UserError
from protoadapt.labeling.classifier import load_classifier
from protoadapt.labeling.names import to_text
from protoadapt.labeling.outputs import UNLABELED, picture_records, skipped_records
from protoadapt.labeling.same_network import load_same
from protoadapt.labeling.thumbnails import Progress
from protoadapt.vision import networks
from protoadapt.vision.embed import embed_files
from protoadapt.vision.feature_store import Store
from protoadapt.vision.pictures import formats
from protoadapt.vision.pictures.walk import Skipped, find_pictures


def predict(
    classifier: str | Path,
    images: Sequence[str | Path],
    *,
    model: str | Path | None = None,
    device: str = "cpu",
    on_progress: Progress = lambda stage, done, total: None,
) -> dict[str, Any]:
    """Names pictures one by one with a classifier that `label` wrote; nothing is fitted.

    Parameters
    ----------
    classifier : classifier.safetensors.
    images : pictures, and folders of pictures.
    model : the network, where it is not found under the name that the classifier keeps; its weights must be the same.
    device : "cpu", "cuda", …
    on_progress : called with "pictures embedded", how many are done, and of how many.

    Returns
    -------
    `pictures`: one record per picture with file, label, confidence, runner_up, margin and unknown; `classes`, `model`,
    `calibrated`, and `skipped` files with reasons.

    Examples
    --------
    >>> predict("named/classifier.safetensors", ["new.jpg"])["pictures"][0]["label"]
    'oak'
    """
    fitted = load_classifier(classifier)
    files, skipped = [], []
    for path in map(str, images):
        if os.path.isdir(path):
            pictures = find_pictures(path)
            files += pictures.files
            skipped += pictures.skipped
        elif os.path.lexists(path):
            files.append(path)
        else:
            raise UserError(f"there is no picture {to_text(path)!r}: check the name")
    views = fitted.model.get("views", 1)
    load = networks.load_for_files if views == 1 else networks.load
    network, metadata = load_same(
        model, fitted.model["name"], fitted.model["weights"], "the classifier was", lambda name: load(name, device)
    )
    store = Store(None, metadata["weights"], metadata["size"])
    contents, broken = embed_files(files, network, metadata, store, partial(on_progress, "pictures embedded"), views)
    skipped += [Skipped(files[i], reason) for i, reason in broken.items()]
    readable = [(file, content) for file, content in zip(files, contents) if content is not None]
    if not readable:
        first = f", {to_text(skipped[0].file)!r} ({skipped[0].reason})" if skipped else ""
        raise UserError(
            f"there is no picture that can be read{first}: give {', '.join(formats.readable())} files or folders of "
            f"them"
        )
    answers = fitted.answer(store.rows([content for _, content in readable]))
    names, codes = [to_text(file) for file, _ in readable], np.full(len(readable), UNLABELED)
    return {
        "schema": "protoadapt-predictions/1",
        "model": fitted.model,
        "calibrated": fitted.threshold is not None,
        "classes": fitted.classes,
        "pictures": picture_records(names, answers, codes, fitted.classes),
        "skipped": skipped_records(skipped),
    }
