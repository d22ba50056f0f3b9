"""Class folders: one folder of pictures per class. Every dataset is distributed in that layout somewhere."""

import os
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from protoadapt.core.errors import UserError
from protoadapt.vision.pictures.decode import Box, Picture
from protoadapt.vision.pictures.split import SplitSource, fingerprint
from protoadapt.vision.pictures.walk import pictures_in

SPLIT_FOLDERS = {
    "base": ("base", "train", "meta-train"),
    "val": ("val", "validation", "valid", "meta-val"),
    "novel": ("novel", "test", "meta-test"),
}


class File(NamedTuple):
    """A picture that a folder or a list names."""

    name: str  # relative to the dataset's root
    label: str
    state: str  # what shows that it was changed (`state_of`)


def class_folders(root: Path, split: str, classes: list[str], crop: str) -> SplitSource | None:
    """The folders of these classes, in the root, in data/ or images/, or in split folders.

    The split is determined by class names, never by the folder above them: CIFAR-100 and CUB are distributed with half
    of each class in train/ and half in test/, and both halves belong to the split. No other class is read.
    """
    files = class_files(root, classes)
    return source_of_files(root, files, classes) if files else None


def class_files(root: Path, classes: list[str]) -> list[File]:
    return [file for folder, label in class_places(root, classes) for file in files_of_class(root, folder, label)]


def class_places(root: Path, classes: list[str]) -> list[tuple[str, str]]:
    """(folder, class) of these classes, from the first place that has pictures of any of them."""
    halves = [name for names in SPLIT_FOLDERS.values() for name in names]
    for places in ([""], ["data/"], ["images/"], [f"{name}/" for name in halves]):
        found = [
            (place + label, label) for place in places for label in classes if _has_picture(root / (place + label))
        ]
        if found:
            return found
    return []


def files_of_class(root: Path, folder: str, label: str) -> list[File]:
    """The pictures directly inside a folder."""
    return [File(f"{folder}/{entry.name}", label, state_of(entry)) for entry in pictures_in(root / folder)]


def state_of(file: Path | os.DirEntry) -> str:
    """Size and time of writing of a file: cached pixels of another file of the same name must not be used."""
    try:
        status = file.stat()
    except OSError:
        return "missing"
    return f"{status.st_size} {status.st_mtime_ns}"


def source_of_files(
    root: Path, files: list[File], classes: list[str] | None, boxes: dict[str, Box] | None = None, lists: str = ""
) -> SplitSource:
    """A source whose fingerprint consists of names, sizes, times and the text of the lists that name them."""

    def read() -> list[Picture]:
        base, box = str(root), boxes or {}
        return [Picture(name, label, f"{base}/{name}", box.get(name)) for name, label, _ in files]

    listing = sorted("\t".join(file) for file in files)
    return SplitSource(root, fingerprint([lists, *listing]), read, classes)


def read_text(path: Path) -> str:
    """The content of a list of pictures, which must be UTF-8."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path} is not UTF-8 text (byte {error.start}): download it again, or save it as UTF-8"
        ) from error


def inside(name: str, listed_in: Path) -> str:
    """A relative path from a list; an error where it leads out of the dataset."""
    if os.path.isabs(name) or ".." in name.replace("\\", "/").split("/"):
        raise UserError(f"{listed_in} names {name!r}, which is outside the dataset: download the list again")
    return name


def any_folder(root: Path, split: str, classes: list[str], crop: str) -> SplitSource | None:
    """A user's own pictures: split folders of class folders, or class folders alone.

    Class folders alone are split by the usual rule of CUB: in sorted order, even ones are base, and of the odd ones
    every other is validation, the rest novel. The split "all" is every class, for using a model rather than training.
    """
    found = {
        part: {name: root / folder for folder in folders for name in _subfolders(root / folder)}
        for part, folders in SPLIT_FOLDERS.items()
    }
    if found["base"] or found["novel"]:
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
        wanted = {name: root for name in rule[split]}
    files = [
        file
        for name, folder in wanted.items()
        for file in files_of_class(root, (folder / name).relative_to(root).as_posix(), name)
    ]
    return source_of_files(root, files, sorted({file.label for file in files})) if files else None


def _subfolders(folder: Path) -> list[str]:
    """Class folders, if the folder exists: not hidden, and with a picture inside."""
    return sorted(
        name
        for name in (os.listdir(folder) if folder.is_dir() else ())
        if name[0] != "." and _has_picture(folder / name)
    )


def _has_picture(folder: Path) -> bool:
    return next(pictures_in(folder), None) is not None


def packed_fingerprint(files: Iterable[Path]) -> str:
    """Fingerprint of files of arrays."""
    return fingerprint(f"{path.name}\t{state_of(path)}" for path in files)
