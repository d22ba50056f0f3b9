"""The ways in which datasets lie on disk: class folders, csv lists, pickles. Each finds the pictures of one split.

A layout is a function (root, split, classes, crop) that returns a `SplitSource`, or None where the folder is laid out
in another way. It touches the pictures of the wanted split only.
"""

import csv
import io
import os
import warnings
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
from PIL import Image

from protoadapt.core.errors import UserError, intact
from protoadapt.training.datasets.unpickle import as_text, read_pickle
from protoadapt.vision.pictures.decode import Box, Picture
from protoadapt.vision.pictures.formats import open_image
from protoadapt.vision.pictures.split import SplitSource, fingerprint
from protoadapt.vision.pictures.walk import is_label_output, no_pictures, pictures_in

Files = list[tuple[str, str]]
"""(name relative to the dataset's root, class) of pictures."""

SPLIT_FOLDERS = {
    "base": ("base", "train", "meta-train"),
    "val": ("val", "validation", "valid", "meta-val"),
    "novel": ("novel", "test", "meta-test"),
}


# Class folders. Every dataset is distributed in that layout somewhere.


def class_folders(root: Path, split: str, classes: list[str], crop: str) -> SplitSource | None:
    """The folders of these classes, in the root, in data/ or images/, or in split folders.

    The split is determined by class names, never by the folder above them: CIFAR-100 and CUB are distributed with half
    of each class in train/ and half in test/, and both halves belong to the split. No other class is read.
    """
    return source_of_files(root, class_files(root, classes), classes)


def imagenet_folders(root: Path, split: str, classes: list[str], crop: str) -> SplitSource | None:
    """Class folders too, but a class has one: val/ of ILSVRC holds other pictures of the classes in its train/."""
    files = class_files(root, classes)
    first = {label: name.partition("/")[0] for name, label in reversed(files)}
    files = [(name, label) for name, label in files if name.startswith(f"{first[label]}/")]
    return source_of_files(root, files, classes)


def class_files(root: Path, classes: list[str]) -> Files:
    """The pictures of these classes, from the first place that has pictures of any of them."""
    halves = [f"{name}/" for names in SPLIT_FOLDERS.values() for name in names]
    for places in ([""], ["data/"], ["images/"], halves):
        files = [file for place in places for label in classes for file in folder_files(root, place + label, label)]
        if files:
            return files
    return []


def folder_files(root: Path, folder: str, label: str, others: Counter[str] | None = None) -> Files:
    """The pictures directly inside a folder, or else in the images/ inside it, where Tiny-ImageNet has them.

    `others` counts the suffixes of other files.
    """
    for place in (folder, f"{folder}/images"):
        if files := [(f"{place}/{name}", label) for name in pictures_in(root / place, others)]:
            return files
    return []


def any_folder(root: Path, split: str, classes: list[str], crop: str) -> SplitSource | None:
    """A user's own pictures: split folders of class folders, or class folders alone.

    Class folders alone are split by the usual rule of CUB: in sorted order, even ones are base, and of the odd ones
    every other is validation, the rest novel. The split "all" is every class, for using a model rather than training.
    """
    found = {
        part: {name: f"{folder}/{name}" for folder in folders for name in _subfolders(root / folder)}
        for part, folders in SPLIT_FOLDERS.items()
    }
    places = [""]
    if found["base"] or found["novel"]:
        places = [folder for folders in SPLIT_FOLDERS.values() for folder in folders]
        names = sorted(name for part in found.values() for name in part)
        if twice := [name for name, following in pairwise(names) if name == following]:
            raise UserError(
                f"class {twice[0]!r} is in two split folders of {root}: validation and novel classes must be new, "
                "so put each class folder into one of them"
            )
        wanted = {name: folder for part in found if split in (part, "all") for name, folder in found[part].items()}
    else:
        names = _subfolders(root)
        rule = {"base": names[::2], "val": names[1::4], "novel": names[3::4], "all": names}
        wanted = {name: name for name in rule[split]}
    others: Counter[str] = Counter()
    files = [file for name, folder in wanted.items() for file in folder_files(root, folder, name, others)]
    for folder in places if files else ():
        _check_classes(root / folder)
    if files and others:
        warnings.warn(f"{root} has {no_pictures(others)}", stacklevel=1)
    return source_of_files(root, files, sorted(wanted))


def _check_classes(folder: Path) -> None:
    """No class may disappear because the suffixes of its pictures are not known, or because they lie deeper."""
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        others: Counter[str] = Counter()
        lost = path.is_dir() and not path.name.startswith(".") and not is_label_output(path)
        if lost and not folder_files(folder, path.name, "", others):
            why = f" ({no_pictures(others)})" if others else ""
            raise UserError(f"no picture is directly in the class folder {str(path)!r}{why}: add some, or move it away")


def _subfolders(folder: Path) -> list[str]:
    """Class folders, if the folder exists: not hidden, and with a picture inside."""
    names = os.listdir(folder) if folder.is_dir() else ()
    return sorted(name for name in names if name[0] != "." and folder_files(folder, name, name))


def source_of_files(
    root: Path, files: Files, classes: list[str], boxes: dict[str, Box] | None = None, lists: str = ""
) -> SplitSource | None:
    """A source whose fingerprint consists of names, sizes, times and the text of the lists that name them; None where
    there are no files."""

    def read() -> list[Picture]:
        box = boxes or {}
        return [Picture(name, label, f"{root}/{name}", box.get(name)) for name, label in files]

    if not files:
        return None
    listing = sorted(f"{name}\t{label}\t{_state(root, name)}" for name, label in files)
    return SplitSource(root, fingerprint([lists, *listing]), read, classes)


def source_of_pickles(files: list[Path], read: Callable[[], list[Picture]], classes: list[str] | None) -> SplitSource:
    """A source whose pictures are arrays in pickled files, which `read` reads."""
    root = files[0].parent

    def checked() -> list[Picture]:
        names = " or ".join(file.name for file in files)
        problem = f"{names} in {root} does not hold the pictures and labels of this dataset"
        with intact(problem, "download it again"):
            return read()

    return SplitSource(root, fingerprint(f"{path.name}\t{_state(root, path.name)}" for path in files), checked, classes)


def _state(root: Path, name: str) -> str:
    """Size and time of writing of a file: cached pixels of another file of the same name must not be used."""
    try:
        status = os.stat(f"{root}/{name}")
    except OSError:
        return "missing"
    return f"{status.st_size} {status.st_mtime_ns}"


def _read_text(path: Path) -> str:
    """The content of a list of pictures, which must be UTF-8."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path} is not UTF-8 text (byte {error.start}): download it again, or save it as UTF-8"
        ) from error


def _read_csv(path: Path) -> list[list[str]]:
    """The lines of a csv file that are not empty."""
    try:
        return [row for row in csv.reader(io.StringIO(_read_text(path), newline="")) if row]
    except csv.Error as error:
        raise UserError(f"{path} cannot be read as csv ({error}): download it again") from error


# CUB-200-2011 (Wah et al., 2011): its class folders, and bounding boxes.

CUB_HOME = "https://www.vision.caltech.edu/datasets/cub_200_2011/"
WHOLE = "use whole pictures with --crop none (in training --set crop=none)"


def cub(root: Path, split: str, classes: list[str], crop: str) -> SplitSource | None:
    """Class folders with official names, in images/ as published or elsewhere, with the official lists or boxes.csv."""
    files = class_files(root, classes)
    if crop == "none" or not files:
        return source_of_files(root, files, classes)
    known = _boxes(root)
    keys = {name: "/".join(name.split("/")[-2:]) for name, _ in files}
    if missing := [key for key in keys.values() if key not in known]:
        raise UserError(f"the list of boxes in {root} has none for {missing[0]}: download it again, or {WHOLE}")
    boxes = {name: known[key] for name, key in keys.items()}
    return source_of_files(root, files, classes, boxes, lists=repr(sorted(boxes.items())))


def _boxes(root: Path) -> dict[str, Box]:
    """'<class>/<file>' → box. boxes.csv has the size of the original picture, so that smaller copies are cut right."""
    for path in (root / "boxes.csv", root / "cub-boxes.csv"):
        if path.is_file():
            header, *listed = _read_csv(path) or [[]]
            return dict(_box(path, dict(zip(header, row))) for row in listed)
    images, boxes = root / "images.txt", root / "bounding_boxes.txt"
    if not (images.is_file() and boxes.is_file()):
        raise UserError(
            f"--crop box needs the boxes of CUB, which are not in {root}: put bounding_boxes.txt and images.txt there, "
            f"which are in CUB_200_2011.tgz from {CUB_HOME}, or boxes.csv with the columns "
            f"image,width,height,x,y,box_width,box_height, or {WHOLE}"
        )
    lines = _numbered(boxes)
    columns = ("image", "x", "y", "box_width", "box_height")
    rows = ([name, *lines[number].split()] for number, name in _numbered(images).items() if number in lines)
    return dict(_box(boxes, dict(zip(columns, row))) for row in rows)


def _box(path: Path, row: dict[str, str]) -> tuple[str, Box]:
    """The picture and the box of a row."""
    try:
        x, y, width, height = (float(row[key]) for key in ("x", "y", "box_width", "box_height"))
        size = (int(row["width"]), int(row["height"])) if "width" in row else None
        return row["image"], Box(x, y, width, height, size)
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path} has a row that is no box, {row}: download it again, or {WHOLE}") from error


def _numbered(path: Path) -> dict[str, str]:
    """number → value of lines 'number value'."""
    pairs = (line.split(maxsplit=1) for line in _read_text(path).splitlines())
    return {pair[0]: pair[1].strip() for pair in pairs if len(pair) == 2}


# mini-ImageNet (Vinyals et al., NeurIPS 2016, in the split of Ravi & Larochelle, ICLR 2017).

MINI_SPLITS = {"base": "train", "val": "val", "novel": "test"}


def mini_csv(root: Path, split: str, classes: list[str], crop: str) -> SplitSource | None:
    """images/ with train.csv, val.csv and test.csv, whose rows are filename, label."""
    path = root / f"{MINI_SPLITS[split]}.csv"
    if not path.is_file() or not (root / "images").is_dir():
        return None
    wanted = set(classes)
    rows = [row[:2] for row in _read_csv(path) if len(row) >= 2]
    files = [(f"images/{name}", label) for name, label in rows if label in wanted]
    for name, _ in files:
        if os.path.isabs(name[7:]) or ".." in name.replace("\\", "/").split("/"):
            raise UserError(f"{path} names {name[7:]!r}, which is outside the dataset: download the list again")
    return source_of_files(root, files, classes, lists=repr(rows))


def mini_pickle(root: Path, split: str, classes: list[str], crop: str) -> SplitSource | None:
    """mini-imagenet-cache-train.pkl, -val.pkl and -test.pkl with image_data and class_dict."""
    path = root / f"mini-imagenet-cache-{MINI_SPLITS[split]}.pkl"

    def read() -> list[Picture]:
        table = read_pickle(path)
        labels = {int(row): as_text(name) for name, rows in table["class_dict"].items() for row in rows}
        return [Picture(f"{path.name}/{row:05d}", label, table["image_data"][row]) for row, label in labels.items()]

    return source_of_pickles([path], read, classes) if path.is_file() else None


# tiered-ImageNet (Ren et al., ICLR 2018), as its authors distribute it.


def tiered_pickles(root: Path, split: str, classes: list[str], crop: str) -> SplitSource | None:
    """train_images_png.pkl with a PNG file per picture, train_labels.pkl with their classes in words, and so on."""
    start = MINI_SPLITS[split]
    files = [root / f"{start}_images_png.pkl", root / f"{start}_labels.pkl"]

    def read() -> list[Picture]:
        pictures, labels = read_pickle(files[0]), read_pickle(files[1])
        names = [as_text(name) for name in labels["label_specific_str"]]
        names = [f"{name} {i}" if name in names[:i] else name for i, name in enumerate(names)]  # two are "crane"
        numbers = labels["label_specific"].tolist()
        return [
            Picture(f"{start}/{row:06d}.png", names[number], partial(_stored_picture, picture))
            for row, (picture, number) in enumerate(zip(pictures, numbers, strict=True))
        ]

    return source_of_pickles(files, read, None) if all(file.is_file() for file in files) else None


def _stored_picture(content: np.ndarray, size: int) -> Image.Image:
    return open_image(content.tobytes())


# CIFAR-100 (Krizhevsky, 2009), which CIFAR-FS (Bertinetto et al., ICLR 2019) and FC100 (Oreshkin et al., NeurIPS 2018)
# split by class: all 600 pictures per class, from the published training and test halves.


def cifar_pickles(root: Path, split: str, classes: list[str], crop: str) -> SplitSource | None:
    """The official files train, test and meta of cifar-100-python."""
    files = [root / name for name in ("meta", "train", "test")]

    def read() -> list[Picture]:
        names = [as_text(name) for name in read_pickle(root / "meta")["fine_label_names"]]
        pictures: list[Picture] = []
        for half in ("train", "test"):
            table = read_pickle(root / half)
            tiles = table["data"].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
            for tile, label, file in zip(tiles, table["fine_labels"], table["filenames"], strict=True):
                pictures.append(Picture(f"{half}/{as_text(file)}", names[label], tile))
        return [picture for picture in pictures if picture.label in classes]

    return source_of_pickles(files, read, classes) if all(file.is_file() for file in files) else None
