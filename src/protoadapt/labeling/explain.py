"""`label --explain`: why a picture is called what it is."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from protoadapt.core.errors import UserError
from protoadapt.core.prototype_model import as_numpy, unit
from protoadapt.labeling.names import UNKNOWN, name_in

if TYPE_CHECKING:
    from protoadapt.labeling.collection import Collection, Named

_EXAMPLES = 5


def reasons_of(record: Mapping[str, Any], threshold: float | None) -> list[str]:
    """What a picture's record in labels.json says of it beside its class, as sentences."""
    group = f"It looks like others of a kind without a name, {record['group']}."
    density = f"Its density is {record['density']:.2f}"
    if threshold is not None:
        below = "below" if record["density"] < threshold else "above"
        density += f", {below} {threshold:.2f}, under which pictures are unknown"
    return [*([group] if record["group"] else []), f"{density}."]


def explained(collection: "Collection", named: "Named", file: str | Path) -> dict[str, Any]:
    """What the answer to one picture rests on.

    Parameters
    ----------
    collection, named : pictures in memory and their names, as `label` has them.
    file : one of the pictures.

    Returns
    -------
    Its record in labels.json with `by_you`, whether a person gave the label, which may be "unknown" then; `threshold`,
    the density below which a picture is unknown; and `nearest`: the examples that resemble it most, with `file`,
    `label` and `resemblance`, a cosine about the centre of all classes.

    Examples
    --------
    >>> explained(collection, named, "photos/7.jpg")["nearest"][0]["label"]    # doctest: +SKIP
    'oak'
    """
    name, records, classifier = name_in(collection.root, str(file)), named.records or [], named.classifier
    asked = [place for place, record in enumerate(records) if record["file"] == name]
    if not asked or collection.table is None:
        raise UserError(f"{str(file)!r} is none of the pictures in {collection.root!r}: give the path of one of them")
    rows, _, row = collection.table
    examples = np.array([place for place, record in enumerate(records) if record["support"] and record["file"] != name])
    one, others = (unit(as_numpy(classifier.prepare(rows[row[places]]))) for places in (asked, examples))
    resemblance = others @ one[0]
    nearest = [
        {key: records[examples[i]][key] for key in ("file", "label")} | {"resemblance": round(float(resemblance[i]), 4)}
        for i in np.argsort(-resemblance, kind="stable")[:_EXAMPLES]
    ]
    record = records[asked[0]]
    of_no_class = record.get("no_class", False)
    label = UNKNOWN if of_no_class else record["label"]
    said = {"label": label, "by_you": record["support"] or of_no_class}
    return record | said | {"threshold": classifier.threshold, "nearest": nearest}
