"""What the verbs write: a csv for people, a json, a page, each whole or not at all, and all that lies beside.

`label` and `predict` have one record per picture, in labels.csv and labels.json; with --features in labels.parquet
(`parquet`).
"""

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from protoadapt.core import files
from protoadapt.core.errors import UserError, count
from protoadapt.core.prototype_model import HAS_NAME, STRAY, Answers
from protoadapt.core.threads import ahead
from protoadapt.labeling import support
from protoadapt.labeling.classifier import CLASSIFIER, save_classifier
from protoadapt.labeling.names import UNKNOWN, class_cell, file_of, from_text, group_name, name_in, to_folder, to_text
from protoadapt.labeling.sorting import sort_pictures
from protoadapt.vision.pictures.decode import PREVIEW, THUMB, data_url, shrunk
from protoadapt.vision.pictures.read import read_file
from protoadapt.vision.pictures.walk import Skipped

if TYPE_CHECKING:
    from protoadapt.labeling.collection import Collection, Named

SCHEMA = "protoadapt-labels/1"
_COLUMNS = ("file", "label", "confidence", "runner_up", "margin", "density", "unknown", "group", "guess")
PARQUET = "labels.parquet"
OURS = {CLASSIFIER: re.compile(rb"protoadapt-classifier/"), PARQUET: re.compile(rb"\APAR1.*runner_up", re.DOTALL)}
"""What shows that a file was written by `label`, for those that it replaces."""
Progress = Callable[[str, int, int], None]
"""Called with the name of a stage, how much of it is done, and of how much."""
FOLDER = ".thumbs"
NAME = re.compile(rf"{re.escape(FOLDER)}/[0-9a-f]{{64}}(-\d{{1,4}})?\.webp")
"""Of a small picture, relative to labels.json. Anything else in a file leads nowhere."""
_SIDES = {350: 256, 600: 192, 1000: 160}
"""Pixels per side up to so many pictures."""
LARGEST_FOR = {256: 12_000, 192: 7_000, 160: 4_200, THUMB: 2_100}
"""Bytes of a small picture by its side: as text a third more, so that no report of 1,000 pictures has 6 MB."""
_LARGEST = 1 << 18  # bytes of a small picture
KEYS = ("thumb", "preview")
THUMBS = 2000
"""Thumbnails in a larger report, at most two kilobytes each."""
LARGE_UNKNOWN = 200
"""Larger previews, beside those of the pictures to label next: the unknown."""
WEIGHT = 4
"""Thumbnails that give way to one preview, so that the size of the report stays the same."""
Page = Callable[[dict[str, Any]], str]
"""Makes the html file of a verb from what its json file holds and the small pictures beside that."""
UNLABELED, NONE_OF_CLASSES = -1, -2
"""In place of a class number: nobody labelled the picture; a person says that it belongs to none of the classes.
(`unknown` is what the classifier suspects.)"""


def codes_of(classes: Sequence[str]) -> dict[str, int]:
    """The numbers of the labels that people may give, UNKNOWN among them."""
    return {name: code for code, name in enumerate(classes)} | {UNKNOWN: NONE_OF_CLASSES}


class AnsweredBlock(NamedTuple):
    """Some pictures with their answers: n pictures, and the features of m unlabelled ones that are in the report."""

    names: Sequence[str]  # (n): clean text (`names.to_text`)
    codes: np.ndarray  # (n): the class that a person gave, UNLABELED or NONE_OF_CLASSES
    origin: np.ndarray  # (n): where that label comes from (`support`)
    answers: Answers
    reported: np.ndarray  # (n): whether the picture is in the report
    features: np.ndarray  # (m, D): rows for the report's drawing and for suggestions, each row once
    featured: np.ndarray  # (m): the pictures that these are of, as positions among the n
    part: int = 0
    numbers: np.ndarray = np.empty(0, np.int32)  # (n): of the pictures in their part of the table

    def labelled(self) -> "AnsweredBlock":
        """The same with what people said in place of the classifier's answers."""
        given, (best, probability, density, group) = self.codes >= 0, self.answers
        first = np.where(given, self.codes, best[:, 0])
        said = self.codes != UNLABELED
        sure = np.where(said[:, None], np.array([1.0, 0.0], probability.dtype), probability)
        group = np.where(said, np.where(given, HAS_NAME, STRAY), group)
        return self._replace(answers=Answers(np.stack([first, best[:, 1]], 1), sure, density, group))

    def records(self, classes: Sequence[str], chosen: np.ndarray | slice = slice(None)) -> list[dict[str, Any]]:
        """One dict per picture, of all pictures or of the chosen ones."""
        names = np.array(self.names, object)[chosen].tolist()
        return picture_records(names, self.answers.at(chosen), self.codes[chosen], classes, self.origin[chosen])


def picture_records(
    names: Sequence[str], answers: Answers, codes: np.ndarray, classes: Sequence[str], origin: np.ndarray | None = None
) -> list[dict[str, Any]]:
    """One dict per picture, of answers in which labels have their place; codes, origin (n) as in `AnsweredBlock`."""
    records = []
    origin = np.zeros_like(codes) if origin is None else origin
    columns = (part.tolist() for part in (*answers, answers.unknown, codes, origin))
    for name, (first, second), (p, q), density, group, unknown, code, source in zip(names, *columns):
        runner_up = "" if code != UNLABELED else classes[second]
        record = {"file": name, "label": classes[first], "confidence": round(p, 6), "runner_up": runner_up}
        record |= {"margin": round(p - q, 6), "density": round(density, 6), "unknown": unknown}
        record |= {"group": None if group < 0 else group_name(group), "thumb": None, "support": code >= 0}
        record |= {"no_class": True} if code == NONE_OF_CLASSES else {}
        label = UNKNOWN if code == NONE_OF_CLASSES else classes[first]
        records.append(record | ({} if code == UNLABELED else {"guess": support.mark_of(label, source)}))
    return records


def skipped_records(skipped: Iterable[Skipped], name: Callable[[str], str] = to_text) -> list[dict[str, str]]:
    """Files that were left out, each once, with the reason."""
    return [{"file": name(file), "reason": to_text(reason)} for file, reason in dict.fromkeys(skipped)]


def labels_csv_text(result: Mapping[str, Any]) -> str:
    """labels.csv of a result. The column `guess` holds the label before anybody corrects it (see `support`)."""
    rows: list[Sequence[object]] = [_COLUMNS]
    for record in result["pictures"]:
        label, runner_up = class_cell(record["label"]), class_cell(record["runner_up"])
        unknown = "yes" if record["unknown"] else "no"
        confidence, margin, density = (f"{record[key]:.4f}" for key in ("confidence", "margin", "density"))
        guess = record.get("guess", class_cell(support.guess_of(record["label"])))
        if record.get("no_class"):
            label = UNKNOWN
        file = files.file_cell(record["file"])
        rows.append([file, label, confidence, runner_up, margin, density, unknown, record["group"] or "", guess])
    return files.csv_text(rows)


def link_between(out: Path, folder: str | Path) -> str | None:
    """The relative path from the results to the pictures; None where it would reveal the layout of the disk."""
    here, there = os.path.abspath(out), os.path.abspath(folder)
    if os.path.splitdrive(there)[0] != os.path.splitdrive(here)[0]:
        return None
    common = os.path.commonpath([there, here])
    return None if os.path.dirname(common) == common else to_text(os.path.relpath(there, here))


class Output:
    """The folder that a verb writes into: what can be refused is refused before the work.

    out: the folder. kind: "labels", "next" or "check", the name of its csv, json and html file; those of an earlier
    run are replaced. page: None: no html file. examples: what is read beside; in a folder of classes the results would
    be one.
    """

    def __init__(self, out: str | Path, kind: str, page: Page | None = None, examples: Sequence[str | Path] = ()):
        self.folder, self.page = Path(out), page
        files.check_output_folder(self.folder)
        for source in filter(os.path.isdir, examples):
            if Path(os.path.realpath(out)).is_relative_to(os.path.realpath(source)):
                raise UserError(
                    f"--out is {str(out)!r}, inside {str(source)!r}, which is also read: give the results a folder of "
                    f"their own"
                )
        labels = kind == "labels"  # whatever people wrote into labels.csv is compared later
        marks = {
            f"{kind}.csv": b"" if labels else rb"\Afile[,;\t]label[,;\t](likely|fault)",
            f"{kind}.json": rf'"schema": *"protoadapt-{kind}/'.encode(),
            "report.html" if labels else f"{kind}.html": f'content="protoadapt, {kind}'.encode(),
        }
        self.csv, self.json, self.html = (
            files.check_output(self.folder / name, kind=re.compile(mark)) for name, mark in marks.items()
        )
        self.unchanged = files.unchanged_since_now(self.csv)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """While one run writes, no other does: all files in the folder are of one."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with files.locked(self.folder) as held:
            if held is False:
                raise UserError(
                    f"another run is writing into {str(self.folder)!r}: when it has ended, run the same command again"
                )
            for folder in (self.folder, *self.folder.rglob("*/")):
                files.sweep(folder)  # also those into which this run writes nothing
            yield

    def write_table(self, text: str) -> None:
        """The csv file, first of all files: if it was edited meanwhile, all stays as it was."""
        files.write_text(self.csv, text, self.unchanged)

    def write_document(self, document: dict[str, Any]) -> None:
        """The json and the html file."""
        files.write_text(self.json, json.dumps(document, ensure_ascii=False, allow_nan=False) + "\n")
        if self.page:
            files.write_text(self.html, self.page(with_images(document, self.folder)))


class LabelOutput(Output):
    """That of `label` and `predict`."""

    def check_corrections(
        self, knows: Callable[[support.Example], bool], images: str | Path | None, sources: Sequence[str | Path] = ()
    ) -> None:
        """Corrections in a labels.csv that is about to be replaced must be among the labels of this run (`knows`)."""
        self.unchanged()  # or the next lines would speak of corrections that were made since
        if not self.csv.is_file():
            return
        examples = support.table_examples(self.csv, images, sources, strict=False)
        if lost := [one.file for one in examples if one.by_table and not knows(one)]:
            raise UserError(
                f"{str(self.csv)!r} holds {count(len(lost), 'correction')} that would be lost, such as "
                f"{to_text(lost[0])!r}: add this table as --support, or move it away"
            )

    def write(
        self,
        collection: "Collection",
        named: "Named",
        sort: str | None,
        on_progress: Progress,
        sources: Sequence[str | Path] | None = None,
    ) -> None:
        """Writes the small pictures, labels.csv, the classifier, the sorted pictures, labels.json and report.html.

        sort: as in `label`. sources: of the examples that the classifier was fitted on; None: it was not,
        and is not written. Where pictures are too many for labels.csv, that of an earlier run is removed, as it would
        contradict the other files, unless it is one of the sources. Sorting adds `left_alone` and `skipped` files to
        the result.
        """
        (result, classifier, records, _), root = named, collection.root
        result["folder"] = link_between(self.folder, root)
        add_thumbnails(result, root, collection.contents, self.folder, on_progress)
        if records is not None:
            self.write_table(labels_csv_text(result | {"pictures": records}))
        elif not any(self.csv.exists() and Path(source).samefile(self.csv) for source in sources or ()):
            self.unchanged()
            self.csv.unlink(missing_ok=True)
        if sources is not None:
            save_classifier(self.folder / CLASSIFIER, classifier)
        if sort:
            places = sorted_places(result["pictures"], root)
            result["left_alone"], failed = sort_pictures(self.folder / "sorted", places, sort)
            result["skipped"] += skipped_records(failed, lambda file: name_in(root, file))
        self.write_document(result)
        remove_unused(result, self.folder)


def sorted_places(records: Sequence[Mapping[str, Any]], root: str) -> dict[str, str]:
    """Where in sorted/ each picture below `root` goes, at the same path as below `root`: below its class, or below
    unknown/ or its group's folder where it may be of no class."""
    places = {}
    for record in records:
        if not record["file"].startswith("../"):
            folder = record["group"] or UNKNOWN if record["unknown"] else to_folder(record["label"])
            place = os.path.join(folder, from_text(record["file"]))
            places[place] = file_of(root, record["file"])
    return places


def thumbnail_sample(records: Sequence[Mapping[str, Any]], most: int = THUMBS) -> list[int]:
    """Which records get a thumbnail: the least certain half, and an even spread of the others over the classes."""
    order = sorted(range(len(records)), key=lambda i: records[i]["confidence"])
    if len(order) <= most:
        return sorted(order)
    others = sorted(order[most // 2 :], key=lambda i: records[i]["label"])
    spread = np.linspace(0, len(others) - 1, most - most // 2).round().astype(int)
    return sorted(order[: most // 2] + [others[place] for place in spread])


def side_for(pictures: int) -> int | None:
    """Pixels per side where all pictures of a report have the same size; None where they are too many for that."""
    return next((side for most, side in _SIDES.items() if pictures <= most), None)


def report_images(records: Sequence[Mapping[str, Any]], following: Sequence[str]) -> list[tuple[int, str, int]]:
    """(record, key, pixels per side) of a report's images: a `thumb`, and a `preview` of what people look at first.

    following: the files to label next. Up to 1,000 pictures all have the same size, so that they need no preview.
    """
    if side := side_for(len(records)):
        return [(i, "thumb", side) for i in range(len(records))]
    first = set(following)
    large = [i for i, record in enumerate(records) if record["file"] in first and not record["support"]]
    unknown = sorted((i for i, one in enumerate(records) if one["unknown"]), key=lambda i: -records[i]["confidence"])
    large += [i for i in unknown[:LARGE_UNKNOWN] if records[i]["file"] not in first]
    small = thumbnail_sample(records, THUMBS - WEIGHT * len(large))
    return [(i, "thumb", THUMB) for i in small] + [(i, "preview", PREVIEW) for i in large]


def write_thumbnails(wanted: Sequence[tuple[str, bytes | None, int]], out: Path) -> Iterator[str | None]:
    """The name of a small picture for each (file, sha256, pixels per side); None where the file cannot be read.

    One that is there already, by the sha256 of the file's content, is not made again.
    """

    def work(one: tuple[str, bytes | None, int]) -> str | None:
        file, content, side = one
        size = f"-{side}" if side != THUMB else ""
        name = f"{FOLDER}/{content.hex()}{size}.webp" if content else None
        try:
            if name is None or not (out / name).is_file():
                small = shrunk(read_file(file), side, largest=LARGEST_FOR[side])[0]
                name = name or f"{FOLDER}/{hashlib.sha256(small).hexdigest()}{size}.webp"
                files.write_bytes(out / name, small, again=True)
            return name
        except Exception:  # gone, in a tar file or on another machine; its label is right without a thumbnail
            return None

    return ahead(work, wanted, 64)


def add_thumbnails(
    document: dict[str, Any], root: str | Path, contents: Mapping[str, bytes], out: Path, on_progress: Progress
) -> None:
    """Writes the report's small pictures and names them in the records of a labels.json.

    root: the folder that files are relative to; contents: sha256 by name, where it is known.
    """
    records = document["pictures"]
    images = report_images(records, [one["file"] for one in document.get("next", ())])
    names = [records[i]["file"] for i, _, _ in images]
    wanted = [(file_of(root, name), contents.get(name), side) for name, (_, _, side) in zip(names, images)]
    for done, ((i, key, _), small) in enumerate(zip(images, write_thumbnails(wanted, out))):
        records[i][key] = small
        on_progress("thumbnails", done + 1, len(images))


def remove_unused(document: Mapping[str, Any], out: Path) -> None:
    """Removes the small pictures of earlier runs that labels.json no longer names."""
    used = {record.get(key) for record in document["pictures"] for key in KEYS}
    for file in (out / FOLDER).glob("*.*"):
        name = f"{FOLDER}/{file.name}"
        if NAME.fullmatch(name) and name not in used:
            file.unlink(missing_ok=True)


def with_images(document: Mapping[str, Any], folder: str | Path) -> dict[str, Any]:
    """A labels.json in this folder with the small pictures inside, as the report takes them.

    Names of other places and missing files are left as they are: the report then shows no picture.
    """
    pictures = document.get("pictures")
    records = pictures if isinstance(pictures, list) else []
    return {**document} | ({"pictures": [_with_image(one, Path(folder)) for one in records]} if records else {})


def _with_image(record: Any, folder: Path) -> Any:
    for key in KEYS if isinstance(record, dict) else ():
        if isinstance(name := record.get(key), str) and NAME.fullmatch(name):
            with suppress(OSError), open(folder / name, "rb") as file:
                content = file.read(_LARGEST)
                record = record | ({key: data_url(content)} if content.startswith(b"RIFF") else {})
    return record
