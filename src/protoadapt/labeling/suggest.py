"""`suggest`, what to label next: the pictures whose labels would teach the most, in order, each with a reason.

Without any label, the most typical picture of each cluster (TypiClust: Hacohen, Dekel, Weinshall, Active Learning on a
Budget, 2022): with few labels, typical pictures teach more than unusual ones.

With labels, three wishes meet in one sum. Let k(i, j) = max(0, cos) be the similarity of two pictures, d_j the doubt
about picture j (1 − margin; 1 if it may be of none of the classes), and S the labelled and the suggested pictures:

    F(S) = Σ_j w_j · max_{i ∈ S} k(i, j),    w = f + (1 − f) d

is what lies close to a label, pictures in doubt first of all. A picture adds much to F if pictures in doubt
(uncertainty) are many around it (density) and no label is near them yet (diversity). Pictures are added one by one,
each time the one that adds most: as F is submodular, this comes within 1 − 1/e of the best choice (Nemhauser et al.,
1978). Without a floor f, labels go to the borders between classes, and unusual examples teach little
(`benchmarks/suggest.py` has the comparison).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from protoadapt.core.errors import UserError, count, whole_number
from protoadapt.core.files import csv_text, file_cell
from protoadapt.core.methods.common import unit
from protoadapt.core.prototype_model import power_transform
from protoadapt.labeling import DEFAULT_METHOD
from protoadapt.labeling.classifier import Classifier
from protoadapt.labeling.label_methods import make_estimator
from protoadapt.labeling.label_pictures import embed_folder, pictures_collection
from protoadapt.labeling.names import class_cell, file_of, name_in
from protoadapt.labeling.outputs import UNLABELED, Output, Page, Progress, write_thumbnails
from protoadapt.labeling.support import read_support, table_examples
from protoadapt.vision.pictures.decode import PREVIEW

_SCHEMA = "protoadapt-next/1"
_COLUMNS = ("file", "label", "likely", "runner-up", "reason")
_MOST = 1000
"""Pictures that can be suggested at once; nobody labels more before looking again."""
POOL = 4000
"""Unlabelled pictures that are considered, at most; a sample of more. Their similarities take 64 MB."""
_NEIGHBOURS = 20
"""Nearest pictures of the same cluster that typicality is measured by, as in the paper."""
FLOOR = 0.3
"""Weight f of a picture without doubt."""
_AGAIN = 32
"""Gains that are computed again at once."""
_SURE = 0.01
"""Below this doubt a picture is not suggested itself."""


class Suggestion(NamedTuple):
    """A picture to label."""

    row: int
    kind: str  # "typical": of a cluster; "uncertain": between two classes; "unknown": may be of none of the classes
    stands_for: int  # unlabelled pictures, itself included, to which no label and no other suggestion is nearer


def suggest(
    rows: np.ndarray, codes: np.ndarray, n: int, *, margin: np.ndarray | None = None, unknown: np.ndarray | None = None
) -> list[Suggestion]:
    """The n pictures to label next, the most useful first; fewer if there is little left to learn.

    Parameters
    ----------
    rows : (N, D) features, centred and of unit length.
    codes : (N) integers, negative for unlabelled rows.
    n : number of pictures.
    margin : (N) difference of a classifier's two largest probabilities; None before there is a classifier.
    unknown : (N) whether a row may be of none of the classes; None: no row.

    Returns
    -------
    list of Suggestion
        Unlabelled rows, none twice. Pictures that are certain (margin above 0.99 and not unknown) are left out.

    Examples
    --------
    >>> rows = np.array([[1, 0], [0.8, 0.6], [0, 1.0]])
    >>> suggest(rows, np.array([0, -1, -1]), 1)[0].row
    2
    """
    rng = np.random.default_rng(0)  # of the sample, where there are more than POOL rows
    unlabeled = np.flatnonzero(codes < 0)
    labeled = np.flatnonzero(codes >= 0)
    if len(unlabeled) > POOL:
        unlabeled = np.sort(rng.choice(unlabeled, POOL, replace=False))
    labeled = rng.choice(labeled, POOL, replace=False) if len(labeled) > POOL else labeled
    n = min(n, len(unlabeled))
    if n < 1:
        return []
    pool = rows[unlabeled]
    if not len(labeled):
        return [Suggestion(int(unlabeled[place]), "typical", size) for place, size in typical(pool, n)]
    foreign = np.zeros(len(pool), bool) if unknown is None else unknown[unlabeled]
    doubt = np.ones(len(pool)) if margin is None else np.where(foreign, 1.0, 1 - margin[unlabeled])
    chosen, stands_for = cover(pool, rows[labeled], doubt, n)
    kinds = np.where(foreign, "unknown", "typical" if margin is None else "uncertain")
    return [Suggestion(int(unlabeled[i]), str(kinds[i]), size) for i, size in zip(chosen, stands_for)]


def centred(rows: np.ndarray) -> np.ndarray:
    """(N, D): features as they come from a network, about their mean and of unit length, as for `suggest` while fewer
    than two classes have an example, and so no classifier prepares the rows."""
    flat = power_transform(torch.from_numpy(rows).float(), 0.5, "auto")
    return unit(flat - flat.mean(0)).numpy()


def cover(pool: np.ndarray, labelled: np.ndarray, doubt: np.ndarray, n: int) -> tuple[list[int], list[int]]:
    """The greedy maximum of F: places in the pool in the order of choice, and how many pictures each stands for.

    pool (m, D), labelled (s, D): rows of unit length; doubt (m): d. What a picture adds only ever shrinks, so a gain of
    an earlier step bounds the present one from above: only the largest few are computed again, until the largest is one
    of them (lazy greedy: Minoux, 1978).
    """
    rows, weight = torch.from_numpy(pool).float(), torch.from_numpy(FLOOR + (1 - FLOOR) * doubt).float()
    similarity = torch.from_numpy(pool @ pool.T).float().clamp_(min=0)
    near = (rows @ torch.from_numpy(labelled).float().mT).amax(1).clamp_(min=0)
    nearest = torch.full((len(pool),), -1)
    gain = torch.where(torch.from_numpy(doubt >= _SURE), (similarity - near).clamp_(min=0) @ weight, -1.0)
    chosen: list[int] = []
    while len(chosen) < n and (gain >= 0).any():
        best = -1
        while best < 0 or gain[best] < gain.amax():
            largest = gain.topk(min(_AGAIN, len(gain))).indices
            largest = largest[gain[largest] >= 0]
            gain[largest] = (similarity[largest] - near).clamp_(min=0) @ weight
            best = int(largest[gain[largest].argmax()])
        nearest[(similarity[best] > near) | (torch.arange(len(pool)) == best)] = len(chosen)
        near = torch.maximum(near, similarity[best])
        gain[best] = -1
        chosen.append(best)
    return chosen, [int((nearest == place).sum()) for place in range(len(chosen))]


def typical(pool: np.ndarray, n: int) -> list[tuple[int, int]]:
    """TypiClust: the most typical row of each of n clusters, largest cluster first, and the cluster's size.

    pool (m, D). Typicality is the inverse of the mean distance to the (at most 20) nearest rows of the same cluster.
    """
    n = min(n, len(np.unique(pool, axis=0)))
    from sklearn.cluster import KMeans

    clusters = KMeans(n, n_init=1, random_state=0).fit_predict(pool)
    sizes = np.bincount(clusters, minlength=n)
    found = []
    for cluster in np.argsort(-sizes, kind="stable")[: np.count_nonzero(sizes)]:
        members = np.flatnonzero(clusters == cluster)
        rows = torch.from_numpy(pool[members]).float()
        k = min(_NEIGHBOURS, len(members) - 1)
        distance = torch.cdist(rows, rows).topk(k + 1, largest=False).values.sum(1)  # one of them is the row itself
        found.append((int(members[distance.argmin()]), len(members)))
    return found


def next_pictures(
    classifier: Classifier, support: np.ndarray, features: np.ndarray, records: Sequence[Mapping[str, Any]], n: int
) -> list[dict[str, Any]]:
    """What labels.json holds as `next`: the n pictures to label next, in order.

    Parameters
    ----------
    classifier : fitted on the support.
    support, features : (S, D) labelled and (m, D) other rows.
    records : m records of the latter, as in `pictures` of labels.json. Those that a person called unknown are left out.
    n : number of pictures.

    Returns
    -------
    list of dict
        `file`, `kind` and `stands_for` (see `Suggestion`), and `reason`, a few words for people.
    """
    asked = np.array([place for place, record in enumerate(records) if not record.get("no_class")], int)
    rows = np.concatenate([support, features[asked]]).astype(np.float32)
    codes = np.repeat([0, -1], [len(support), len(asked)])
    margin, unknown = (
        np.concatenate([np.ones(len(support)), [records[place][key] for place in asked]])
        for key in ("margin", "unknown")
    )
    found = suggest(unit(classifier.prepare(rows)).numpy(), codes, n, margin=margin, unknown=unknown.astype(bool))
    return [next_record(one, records[asked[one.row - len(support)]]) for one in found]


def next_record(suggestion: Suggestion, record: Mapping[str, Any]) -> dict[str, Any]:
    """One entry of `next`. record: with `file` and, where there is a classifier, `label` and `runner_up`."""
    _, kind, stands_for = suggestion
    why = {
        "typical": "typical of its group",
        "uncertain": f"{record.get('label')} or {record.get('runner_up')}",
        "unknown": "resembles no example",
    }[kind]
    like = f"; {count(stands_for - 1, 'similar picture')} without a label" if stands_for > 1 else ""
    return {"file": record["file"], "kind": kind, "stands_for": stands_for, "reason": why + like}


def suggest_folder(
    images: str | Path,
    out: str | Path,
    support: Sequence[str | Path] = (),
    *,
    n: int = 20,
    model: str | Path,
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
    there are two), `kind`, `stands_for`, `reason` and `preview`, the name of a small picture; `skipped` files with
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
        found = suggest(centred(rows), np.where(codes == UNLABELED, -1, 0), n)
        records = [next_record(one, {"file": names[row.tolist().index(one.row)]}) for one in found]
    else:
        result = collection.name(make_estimator(DEFAULT_METHOD, {}, device), paths=False, n_next=n).result
        likely = {one["file"]: {key: one[key] for key in ("label", "runner_up")} for one in result["pictures"]}
        records = [one | likely[one["file"]] for one in result["next"]]
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
