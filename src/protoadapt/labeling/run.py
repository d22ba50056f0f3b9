"""The two verbs: `label` a folder with the help of all its pictures, `predict` new ones with what was fitted."""

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from protoadapt.core.errors import UserError
from protoadapt.core.estimators import PrototypeClassifier
from protoadapt.core.files import check_output, check_output_folder, unchanged_since_now
from protoadapt.labeling import label_tables, outputs
from protoadapt.labeling.classifier import Classifier, described, estimator, load_classifier, save_classifier
from protoadapt.labeling.names import UNKNOWN, slips, to_folder, to_text
from protoadapt.labeling.prototype_paths import prototype_paths
from protoadapt.labeling.sorting import WAYS, check_folders, sort_pictures
from protoadapt.labeling.support import Shot, by_content, nothing_lost, read_support, table_shots
from protoadapt.vision import networks
from protoadapt.vision.embed import embed_files
from protoadapt.vision.feature_store import Store
from protoadapt.vision.pictures.walk import Skipped, find_pictures

METHOD = "bapa"
FILES = ("labels.csv", "labels.json", "classifier.safetensors", "report.html")
Progress = Callable[[str, int, int], None]
"""Told what is being done, how many are done, and of how many."""


class Gathered(NamedTuple):
    """Pictures of which each content is one row, however many files hold it."""

    files: list[str]  # to be named, full paths
    row: np.ndarray  # (files): the row of each
    contents: list[bytes]  # sha256 of each row
    codes: np.ndarray  # (rows): the class that was given, or -1
    by_table: np.ndarray  # (rows): whether a table gave it, and no folder
    classes: list[str]
    skipped: list[Skipped]


def label(
    support: Sequence[str | Path],
    images: str | Path,
    out: str | Path,
    *,
    model: str | Path,
    method: str = METHOD,
    settings: Mapping[str, Any] | None = None,
    sort: str | None = None,
    cache: str | Path | None = None,
    device: str = "cpu",
    on_progress: Progress = lambda what, done, total: None,
) -> dict[str, Any]:
    """Names the pictures in `images` and writes labels.csv, labels.json and classifier.safetensors into `out`.

    Returns what labels.json holds. `cache` keeps features by content; by default it is inside `out`, so that nothing
    is written elsewhere and all of it can be thrown away together.
    """
    out, cache = Path(out), Path(cache or Path(out, ".features"))
    _check(out, images, support, sort)
    labels_csv = out / "labels.csv"
    unchanged = unchanged_since_now(labels_csv)
    chosen = estimator(method, settings or {}, device)
    shots, skipped, no_class = read_support(support, images)
    if sort:
        check_folders(sorted({shot.label for shot in shots}))
    found = find_pictures(images, leave=[out, cache])
    if not found.files:
        raise UserError(f"there are no pictures in {str(images)!r}: give a folder of JPEG, PNG, WebP, … files")
    network, about = networks.load(model, device)
    store = Store(cache, about["weights"], about["size"])
    files = list(dict.fromkeys([*found.files, *(shot.file for shot in shots), *no_class]))
    contents, wrong = embed_files(files, network, about, store, partial(on_progress, "embedding"))
    skipped += [*found.skipped, *(Skipped(files[place], reason) for place, reason in wrong.items())]
    content_of = dict(zip(files, contents))
    there = {content_of[file] for file in found.files}
    outside = [file for file in no_class if content_of[file] not in there]
    gathered = gather([*found.files, *outside], shots, content_of, skipped)
    unknown = _unknown_rows(gathered, no_class, content_of)
    unchanged()  # or the next line would speak of corrections that were made since
    _nothing_lost(labels_csv, images, support, gathered, unknown, content_of)
    rows = store.rows(gathered.contents)

    def name(file: str) -> str:
        return to_text(os.path.relpath(file, images))

    title, names = to_text(Path(os.path.abspath(images)).name), [name(file) for file in gathered.files]
    told, classifier = named(title, names, gathered.row, rows, gathered.codes, gathered.classes, chosen, about)
    for picture, row in zip(told["pictures"], gathered.row.tolist()):
        picture["by_table"] = bool(gathered.by_table[row])
        if row in unknown:
            picture |= {"unknown": True, "no_class": True}
    told["skipped"] = outputs.tell_skipped(gathered.skipped, name)
    by_hand, by_folder = ({shot.label for shot in shots if shot.by_table == by} for by in (True, False))
    told |= {"notes": slips(by_hand, by_folder), "folder": outputs.way_to(images, out)}
    _show(told["pictures"], gathered, cache, partial(on_progress, "thumbnails"))
    outputs.write_text(labels_csv, outputs.as_csv(told), unchanged)  # first: if it refuses, all is as it was
    outputs.write_json(out / "labels.json", told)
    save_classifier(out / "classifier.safetensors", classifier)
    if sort:
        done = sort_pictures(out / "sorted", _places(told, gathered.files, images), sort)
        told["left_alone"] = done.left_alone
        told["skipped"] += outputs.tell_skipped(done.failed, name)
    return told


def predict(
    classifier: str | Path,
    given: Sequence[str | Path],
    *,
    model: str | Path | None = None,
    device: str = "cpu",
    on_progress: Progress = lambda what, done, total: None,
) -> dict[str, Any]:
    """Names pictures, and those in folders, each by itself, with a classifier that `label` wrote."""
    fitted = load_classifier(classifier)
    files, skipped = [], []
    for path in map(str, given):
        if os.path.isdir(path):
            found = find_pictures(path)
            files += found.files
            skipped += found.skipped
        elif os.path.lexists(path):
            files.append(path)
        else:
            raise UserError(f"there is no picture {to_text(path)!r}: check the name")
    network, about = networks.load(model or fitted.model["name"], device)
    if about["weights"] != fitted.model["weights"]:
        raise UserError(
            f"the model {about['model']!r} has other weights than the one the classifier was made with "
            f"({fitted.model['name']!r}, {fitted.model['weights']}): give that one with --model, or label again"
        )
    store, views = Store(None, about["weights"], about["size"]), fitted.model.get("views", 1)
    contents, wrong = embed_files(files, network, about, store, partial(on_progress, "embedding"), views)
    skipped += [Skipped(files[place], reason) for place, reason in wrong.items()]
    read = [(file, content) for file, content in zip(files, contents) if content is not None]
    if not read:
        first = f", {to_text(skipped[0].file)!r} ({skipped[0].reason})" if skipped else ""
        raise UserError(
            f"there is no picture that can be read{first}: give JPEG, PNG, WebP, … files or folders of them"
        )
    answers = fitted.answer(store.rows([content for _, content in read]))
    names = [to_text(file) for file, _ in read]
    return {
        "schema": "protoadapt-predictions/1",
        "model": fitted.model,
        "calibrated": fitted.threshold is not None,
        "classes": fitted.classes,
        "pictures": outputs.picture_rows(names, answers, np.full(len(read), -1), fitted.classes),
        "skipped": outputs.tell_skipped(skipped, to_text),
    }


def gather(
    files: Sequence[str], shots: Sequence[Shot], contents: Mapping[str, bytes | None], skipped: list[Skipped]
) -> Gathered:
    """Joins pictures and shots by content: a picture that was given a label counts once, with that label.

    Shots that are not among the files are named too, after them, so that all labels are in one list.
    """
    label_of = by_content(shots, contents)
    there = {contents[file] for file in files}
    extra = [shot.file for content, shot in label_of.items() if content not in there]
    named = [(file, content) for file in [*files, *extra] if (content := contents[file]) is not None]
    if not any(contents[file] for file in files):
        raise UserError(
            f"no picture can be read ({to_text(skipped[-1].file)!r}: {skipped[-1].reason}): give other pictures"
        )
    classes = sorted({shot.label for shot in label_of.values()})
    if len(classes) < 2:
        raise UserError(
            f"readable pictures were given for {len(classes)} class only, and two are needed: "
            f"of {to_text(skipped[-1].file)!r}: {skipped[-1].reason}"
        )
    row = {content: place for place, content in enumerate(dict.fromkeys(content for _, content in named))}
    number = {name: code for code, name in enumerate(classes)}
    codes = np.array([number[label_of[content].label] if content in label_of else -1 for content in row])
    in_folder = {contents[shot.file] for shot in shots if not shot.by_table}
    by_table = np.array([content in label_of and content not in in_folder for content in row])
    places = np.array([row[content] for _, content in named])
    return Gathered([file for file, _ in named], places, list(row), codes, by_table, classes, skipped)


def named(
    title: str,
    names: Sequence[str],
    row: Sequence[int] | np.ndarray,
    rows: np.ndarray,
    codes: np.ndarray,
    classes: list[str],
    chosen: PrototypeClassifier,
    about: Mapping[str, Any],
    paths: bool = True,
) -> tuple[dict[str, Any], Classifier]:
    """Fits and answers: what `outputs` tells of all pictures, and the classifier.

    names, row: of each picture, its name and which of the rows is its; rows (n, D), codes (n): the class that was given
    to a row, or -1; chosen: the estimator, which is fitted. `paths` are for the report, and take seconds.
    """
    classifier = Classifier.of(chosen.fit(rows, codes), classes, model_of(about), rows, codes, about["calibration"])
    pictures = outputs.picture_rows(names, classifier.answer(rows).at(row), codes[row], classes)
    shots = np.bincount(codes[codes >= 0], minlength=len(classes)).tolist()
    told = outputs.tell(title, pictures, shots, classifier, about, described(chosen))
    if paths:
        told["paths"] = prototype_paths(chosen, classifier, rows, codes)
    return told, classifier


def model_of(about: Mapping[str, Any]) -> dict[str, Any]:
    """What a classifier keeps of its model."""
    return {"name": about["model"]} | {key: about[key] for key in ("weights", "size", "mean", "std")}


def _show(rows: list[dict[str, Any]], gathered: Gathered, cache: Path, on_progress: Callable[[int, int], None]) -> None:
    """Thumbnails into the rows, as many as a report can hold."""
    pictured = outputs.pictured(rows)
    wanted = [(gathered.files[i], gathered.contents[gathered.row[i]], side) for i, _, side in pictured]
    for done, ((i, key, _), small) in enumerate(zip(pictured, outputs.thumbnails(wanted, cache))):
        rows[i][key] = small
        on_progress(done + 1, len(pictured))


def _places(told: Mapping[str, Any], files: Sequence[str], images: str | Path) -> dict[str, str]:
    """Where in sorted/ each picture of `images` goes: below its class, where it was below `images`."""
    places = {}
    for picture, file in zip(told["pictures"], files):
        inside = os.path.relpath(file, images)
        if not inside.startswith(os.pardir + os.sep):
            folder = UNKNOWN if picture["unknown"] else to_folder(picture["label"])
            places[os.path.join(folder, inside)] = file
    return places


def _check(out: Path, images: str | Path, support: Sequence[str | Path], sort: str | None) -> None:
    """Before the work: what would only be found out after it."""
    check_output_folder(out)
    real = {path: Path(os.path.realpath(path)) for path in (out, images, *support)}
    if real[out] == real[images]:
        raise UserError(f"--out and --images are both {str(out)!r}: give the results a folder of their own")
    if any(real[out] == real[path] for path in support):
        raise UserError(f"--out and --support are both {str(out)!r}: give the results a folder of their own")
    for name in FILES:
        check_output(out / name)
    if parts := label_tables.parts_in(
        out
    ):  # would stay beside labels that say otherwise; of millions, so not ours to remove
        raise UserError(
            f"{str(parts[0])!r} holds labels of label --features: remove it, or give these another folder as --out"
        )
    if sort is not None and sort not in WAYS:
        raise UserError(f"--sort is {sort!r}: choose copy or link")
    for path in (images, *support):
        if sort and real[path].is_relative_to(real[out] / "sorted"):
            raise UserError(f"--sort would write into {str(path)!r}, which is also read: leave --sort out")


def _unknown_rows(gathered: Gathered, files: Sequence[str], content_of: Mapping[str, bytes | None]) -> set[int]:
    """The rows of these files, which a table says are of no class; nothing else may give them one."""
    row = {content: place for place, content in enumerate(gathered.contents)}
    found = set()
    for file in files:
        if (content := content_of[file]) is not None:
            found.add(place := row[content])
            if gathered.codes[place] >= 0:
                raise UserError(
                    f"{to_text(file)!r} is given as {gathered.classes[gathered.codes[place]]!r} and, in a table, as "
                    f"{UNKNOWN!r}: keep one of them"
                )
    return found


def _nothing_lost(
    table: Path,
    images: str | Path,
    support: Sequence[str | Path],
    gathered: Gathered,
    unknown: set[int],
    content_of: Mapping[str, bytes | None],
) -> None:
    """Corrections in a labels.csv that is about to be replaced must be among the labels of this run."""
    if not table.is_file():
        return
    label_of = {
        content: UNKNOWN if place in unknown else gathered.classes[code]
        for place, (content, code) in enumerate(zip(gathered.contents, gathered.codes.tolist()))
        if place in unknown or code >= 0
    }
    real = {os.path.realpath(file): content for file, content in content_of.items()}

    def content(file: str) -> bytes | None:
        return real.get(os.path.realpath(file), b"")  # None: broken

    shots = table_shots(table, images, support, strict=False, unknown=True)
    readable = (shot for shot in shots if content(shot.file) is not None)
    nothing_lost(table, readable, lambda file: label_of.get(content(file) or b""))
