"""`check`: labels that are probably wrong, near-duplicates, outliers, and classes that are confused with each other.

*Suspect labels.* Each picture is judged by a classifier that never saw its label: ridge regression of the class
indicators, whose exact leave-one-out answers follow from one fit (scikit-learn's RidgeCV). λ has the least
leave-one-out error, and a softmax with the likeliest temperature turns answers into probabilities. A label is suspect
if it is less than half as likely as a blind guess, 1/C of C classes.

*Near-duplicates* have a cosine above 0.88 about the mean; groups are connected by such pairs. *Outliers* resemble even
their nearest pictures far less than is usual here. *Confused classes* are those whose pictures get each other's label.
"""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.optimize import minimize_scalar
from scipy.sparse.csgraph import connected_components
from sklearn import config_context
from sklearn.linear_model import RidgeCV
from sklearn.neighbors import NearestNeighbors

from protoadapt.core.errors import count
from protoadapt.core.files import csv_text, file_cell
from protoadapt.core.provenance import made_now
from protoadapt.labeling import DEFAULT_MODEL
from protoadapt.labeling.label_pictures import embed_pictures
from protoadapt.labeling.names import UNKNOWN, class_cell, file_of, name_in, to_text
from protoadapt.labeling.outputs import Output, Page, Progress, skipped_records, write_thumbnails
from protoadapt.labeling.suggest import centred
from protoadapt.labeling.support import class_names, read_support, table_rows
from protoadapt.vision import networks
from protoadapt.vision.pictures.decode import THUMB
from protoadapt.vision.pictures.walk import Listing

_SCHEMA = "protoadapt-check/1"
_COLUMNS = ("file", "label", "fault", "detail", "score", "group")
_EXAMPLES = 12
"""Pictures of a pair of confused classes that are named."""
PICTURED = 500
"""Pictures with a fault that the page shows; check.csv has all."""
RIDGES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
SUSPECT = 0.5
"""Probability, as a multiple of a blind guess, below which a label is suspect."""
DUPLICATE = 0.88
"""Cosine above which two pictures are near-duplicates. No two different pictures of 40 species of birds come closer;
copies that were mirrored, brightened or lost a margin of 5 % do, and most that were halved or saved at quality 30."""
_NEAREST = 5
"""Nearest pictures that an outlier does not resemble."""
FENCE = 3.0
"""An outlier's resemblance is so many interquartile ranges below the first quartile: Tukey's outer fence."""
_MEGABYTES = 128
"""Of cosines at a time."""
TEMPERED = 5000
"""Rows that the temperature is fitted on, at most."""


class Faults(NamedTuple):
    """All that was found, the worst first, by rows and numbers of classes."""

    suspects: list[tuple[int, int, float, float]]  # row, likeliest class, leave-one-out p of its label, p of that class
    duplicates: list[list[int]]  # groups of two or more rows, the largest first
    outliers: list[tuple[int, float]]  # row, mean cosine to its nearest rows
    confused: list[tuple[tuple[int, int], list[int], float]]
    """Two classes, the rows of either whose likeliest answer is the other, the least like their own class first, and
    their share of all rows of both."""


def check_folder(
    sources: Sequence[str | Path],
    out: str | Path,
    *,
    images: str | Path | None = None,
    model: str | Path = DEFAULT_MODEL,
    cache: str | Path | None = None,
    device: str = "cpu",
    page: Page | None = None,
    on_progress: Progress = lambda stage, done, total: None,
) -> dict[str, Any]:
    """Looks for faults in labelled pictures (`find_faults`) and writes check.csv and check.json.

    Parameters
    ----------
    sources : folders with one folder of pictures per class, and csv files with the columns `file` and `label`.
    out : the folder that gets them, with small pictures and features.
    images : the folder in which files of tables are looked up; by default that of the table.
    model, cache, device, on_progress : as in `label`.
    page : makes `out`/check.html, such as `protoadapt.report.picture_pages.check_page`; None: no page.

    Returns
    -------
    What check.json holds: `suspects` (file, label, likely, p_label, p_likely), `duplicates` (files, identical,
    contradicts), `outliers` (file, label, similarity), `confused` (classes, pictures: how many, share, files: the first
    of them), each the worst first;
    `checked`, the number of pictures; `classes`; `pictures`, one record for each with a fault; `skipped`, `notes`.

    Examples
    --------
    >>> check_folder(["pictures"], "checked", model="lite0")["suspects"][0]["likely"]
    'oak'
    """
    output = Output(out, "check", page, sources)
    base = Path(images or (sources[0] if os.path.isdir(sources[0]) else Path(sources[0]).parent))
    examples = read_support(sources, base, least=1)
    network = networks.load_for_files(model, device)
    listing = Listing([example.file for example in examples.examples], [])
    embedded = embed_pictures(listing, examples, network, cache or output.folder / ".features", on_progress)
    labels: dict[bytes, dict[str, str]] = {}  # of each content: labels by name
    for example in examples.examples:
        if (content := embedded.content_of[example.file]) is not None and example.label != UNKNOWN:
            labels.setdefault(content, {})[name_in(base, example.file)] = example.label
    classes = class_names(examples.examples)
    number = {name: code for code, name in enumerate(classes)}
    codes = np.array([number[next(iter(of.values()))] if len({*of.values()}) == 1 else -1 for of in labels.values()])
    faults = find_faults(centred(embedded.store.rows(list(labels))), codes)
    contents = {name: content for content, of in labels.items() for name in of}
    found = _document(faults, [*labels.values()], classes)
    shown = found["pictures"][:PICTURED]
    wanted = [(file_of(base, one["file"]), contents[one["file"]], THUMB) for one in shown]
    notes = examples.notes()
    tables = [path for path in map(Path, sources) if path.is_file() and path.suffix != ".json"]
    if guesses := sum(bool(row.label) and not row.is_example for table in tables for row in table_rows(table)):
        notes.append(f"{count(guesses, 'label is', 'labels are')} a guess of `label` that nobody changed: not checked")
    document = {
        "schema": _SCHEMA,
        "title": to_text(base.resolve().name),
        **made_now(),
        "model": {key: embedded.metadata[key] for key in ("model", "weights", "size")},
        **found,
        "skipped": skipped_records(embedded.skipped, lambda file: name_in(base, file)),
        "notes": notes,
    }
    with output.alone():
        for record, small in zip(shown, write_thumbnails(wanted, output.folder)):
            record["thumb"] = small
        output.write_table(check_table(document))
        output.write_document(document)
    return document


def _document(faults: Faults, labels: Sequence[Mapping[str, str]], classes: Sequence[str]) -> dict[str, Any]:
    """Faults of rows as faults of files. labels: of each row the labels by file."""
    duplicates: list[dict[str, Any]] = []
    confused: list[dict[str, Any]] = []
    first = [{"file": file, "label": of[file]} for of in labels for file in [next(iter(of))]]
    suspects = [
        first[row] | {"likely": classes[likely], "p_label": round(p_label, 5), "p_likely": round(p_likely, 5)}
        for row, likely, p_label, p_likely in faults.suspects
    ]
    outliers = [first[row] | {"similarity": round(similarity, 4)} for row, similarity in faults.outliers]
    grouped = {row for group in faults.duplicates for row in group}
    identical = [[row] for row, of in enumerate(labels) if len(of) > 1 and row not in grouped]
    for group in [*faults.duplicates, *identical]:
        files = [{"file": file, "label": label} for row in group for file, label in labels[row].items()]
        contradicts = len({one["label"] for one in files}) > 1
        duplicates.append({"files": files, "identical": len(group) == 1, "contradicts": contradicts})
    duplicates.sort(key=lambda one: (not one["contradicts"], -len(one["files"])))
    for pair, rows, share in faults.confused:
        files, names = [first[row] for row in rows[:_EXAMPLES]], [classes[code] for code in pair]
        confused.append({"classes": names, "pictures": len(rows), "share": round(share, 4), "files": files})
    copies, mixed = ([file for one in kind for file in one["files"]] for kind in (duplicates, confused))
    found = [*suspects, *copies, *outliers, *mixed]
    pictures = {one["file"]: {"file": one["file"], "label": one["label"], "thumb": None} for one in found}
    sizes = Counter(label for of in labels for label in of.values())
    return {
        "checked": sizes.total(),
        "classes": [{"name": name, "pictures": sizes[name]} for name in classes],
        **{"suspects": suspects, "duplicates": duplicates, "outliers": outliers, "confused": confused},
        "pictures": list(pictures.values()),
    }


def check_table(document: Mapping[str, Any]) -> str:
    """check.csv: a line per picture and fault (`label`, `duplicate` or `outlier`), the worst first."""
    faults = [(one, "label", one["likely"], f"{one['p_label']:.4f}", "") for one in document["suspects"]]
    for group, of in enumerate(document["duplicates"], 1):
        kind = ("identical" if of["identical"] else "near-duplicate") + (", other label" if of["contradicts"] else "")
        faults += [(one, "duplicate", kind, "", str(group)) for one in of["files"]]
    for one in document["outliers"]:
        faults.append((one, "outlier", "resembles no other picture", f"{one['similarity']:.4f}", ""))
    rows = [
        (file_cell(one["file"]), class_cell(one["label"]), fault, class_cell(detail), score, group)
        for one, fault, detail, score, group in faults
    ]
    return csv_text([_COLUMNS, *rows])


def find_faults(rows: np.ndarray, codes: np.ndarray) -> Faults:
    """Faults of labelled rows.

    Parameters
    ----------
    rows : (N, D) features, centred and of unit length, no two of the same file.
    codes : (N) classes from 0, negative for rows without a label; those are searched for duplicates and outliers only.

    Returns
    -------
    Faults
        Suspect labels need two classes of two rows or more; outliers need seven rows.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> codes = np.repeat([0, 1], 20)
    >>> rows = np.eye(8)[codes] + 0.1 * rng.normal(size=(40, 8))
    >>> rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    >>> codes[3] = 1
    >>> [row for row, *_ in find_faults(rows, codes).suspects]
    [3]
    """
    rows = np.ascontiguousarray(rows, np.float32)
    duplicates, nearest = near_duplicates(rows)
    labelled = np.flatnonzero(codes >= 0)
    present, numbers, sizes = np.unique(codes[labelled], return_inverse=True, return_counts=True)
    several = sizes[numbers] > 1  # without its only row, nothing is known of a class
    suspects, confused = [], []
    if several.any() and len(present) > 1:
        p = probabilities(leave_one_out(rows[labelled], numbers), numbers)
        own, best = p[np.arange(len(p)), numbers], p.argmax(1)
        wrong = np.flatnonzero(several & (best != numbers))
        wrong = wrong[np.argsort(own[wrong], kind="stable")]
        for i in wrong[own[wrong] < SUSPECT / len(present)]:
            suspects.append((int(labelled[i]), int(present[best[i]]), float(own[i]), float(p[i, best[i]])))
        confused = _confusions(labelled[wrong], numbers[wrong], best[wrong], sizes, present)
    return Faults(suspects, duplicates, outliers(nearest), confused)


def leave_one_out(rows: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """(N, C): for each row (N, D) the scores of classes 0 … C − 1 that ridge regression gives without its own label."""
    labels = np.eye(codes.max() + 1, dtype=np.float32)[codes]
    fitted = RidgeCV(RIDGES, scoring="neg_mean_squared_error", store_cv_results=True).fit(rows, labels)
    return fitted.cv_results_[..., RIDGES.index(fitted.alpha_)]


def probabilities(scores: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """(N, C): softmax of scores (N, C) at the temperature under which the labels (N) are likeliest."""
    table, labels = torch.from_numpy(scores).float(), torch.from_numpy(codes)
    some = torch.randperm(len(table), generator=torch.Generator().manual_seed(0))[:TEMPERED]

    def loss(log_scale: float) -> float:
        return float(torch.nn.functional.cross_entropy(np.exp(log_scale) * table[some], labels[some]))

    scale = np.exp(minimize_scalar(loss, bounds=(-2, 6), method="bounded").x)
    return (scale * table).softmax(1).numpy()


def near_duplicates(rows: np.ndarray) -> tuple[list[list[int]], np.ndarray]:
    """Groups of near-duplicates, and each row's mean cosine to its nearest rows (N)."""
    if len(rows) < 2:
        return [], np.ones(len(rows), np.float32)
    table = NearestNeighbors(n_neighbors=min(_NEAREST, len(rows) - 1), radius=1 - DUPLICATE, metric="cosine").fit(rows)
    with config_context(working_memory=_MEGABYTES):
        distances, _ = table.kneighbors()
        pairs = table.radius_neighbors_graph()
    _, group = connected_components(pairs, directed=False)
    order = np.argsort(group, kind="stable")
    members = np.split(order, np.flatnonzero(np.diff(group[order])) + 1)
    groups = sorted((part.tolist() for part in members if len(part) > 1), key=lambda part: (-len(part), part))
    return groups, 1 - distances.mean(1)


def outliers(nearest: np.ndarray) -> list[tuple[int, float]]:
    """Rows far below the usual resemblance to their nearest rows (N)."""
    if len(nearest) < _NEAREST + 2:
        return []
    low, high = np.quantile(nearest, [0.25, 0.75])
    found = np.flatnonzero(nearest < low - FENCE * (high - low))
    return [(int(row), float(nearest[row])) for row in found[np.argsort(nearest[found])]]


def _confusions(
    rows: np.ndarray, codes: np.ndarray, best: np.ndarray, sizes: np.ndarray, present: np.ndarray
) -> list[tuple[tuple[int, int], list[int], float]]:
    """Pairs of classes by the share of their rows whose likeliest class is the other."""
    pairs: dict[tuple[int, int], list[int]] = {}
    for row, *pair in zip(rows.tolist(), codes.tolist(), best.tolist()):
        pairs.setdefault((min(pair), max(pair)), []).append(row)
    found = []
    for (a, b), inside in pairs.items():
        if len(inside) > 1:
            found.append(((int(present[a]), int(present[b])), inside, float(len(inside) / (sizes[a] + sizes[b]))))
    return sorted(found, key=lambda one: (-one[2], one[0]))
