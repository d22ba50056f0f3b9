"""The labels that people give: a folder a class, or a table of files and labels, such as a corrected labels.csv.

A table counts every row with a label. But labels.csv also holds guesses, and a guess that comes back as truth would
teach its own mistakes. So it has a column `guess`, what the label was when the file was written: a row counts if its
label has been changed, or its guess emptied, which says that it is right. Labels that were given count again; there
`guess` says by what, "(folder) cat" (once written "(folder)"), "(table)", or "(page)" for the page in the browser.
Without that column all rows count.
"""

import csv
import filecmp
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from protoadapt.core.errors import UserError, count
from protoadapt.labeling.names import UNKNOWN, class_cell, class_of_cell, composed, from_folder, from_text, to_text
from protoadapt.vision.pictures.walk import Skipped, find_pictures

BY_FOLDER, BY_TABLE, BY_PAGE = "(folder)", "(table)", "(page)"
DELIMITERS = ",;\t"  # spreadsheets of some countries write the others


class Shot(NamedTuple):
    """A picture and the label that it was given."""

    file: str
    label: str
    by_table: bool = False  # people's work that may be nowhere else


class Support(NamedTuple):
    shots: list[Shot]
    skipped: list[Skipped]
    unknown: Sequence[str] = ()  # files that somebody says are of no class


class Row(NamedTuple):
    line: int
    file: str  # as written
    label: str
    guess: str | None  # None: there is no such column

    @property
    def by_table(self) -> bool:
        """Whether the label is a table's own, and not a folder's."""
        return self.guess not in (BY_FOLDER, by_folder(self.label))


def by_folder(label: str) -> str:
    """The guess of a row whose label a folder gave: it says which, so that a change shows."""
    return f"{BY_FOLDER} {class_cell(label)}"


def by_content(shots: Iterable[Shot], contents: Mapping[str, bytes | None]) -> dict[bytes, Shot]:
    """The first shot of each content (of each file; None: it cannot be read). One picture has one label."""
    found: dict[bytes, Shot] = {}
    for shot in shots:
        content = contents[shot.file]
        if content is None:
            continue
        first = found.setdefault(content, shot)
        if first.label != shot.label:
            raise UserError(
                f"{to_text(first.file)!r} is given as {first.label!r} and {to_text(shot.file)!r}, the same picture, as "
                f"{shot.label!r}: keep one of them"
            )
    return found


def read_support(given: Sequence[str | Path], images: str | Path) -> Support:
    """All shots of class folders and tables; for the files of a table see `table_shots`."""
    shots, skipped, unknown = [], [], []
    for source in map(Path, given):
        if source.is_dir():
            found = of_folders(source)
        elif source.is_file():
            rows = list(table_shots(source, images, given, unknown=True))
            unknown += [shot.file for shot in rows if _is_no_class(shot.label)]
            found = Support([shot for shot in rows if not _is_no_class(shot.label)], [])
        else:
            raise UserError(f"there is no {str(source)!r}: --support takes a folder of class folders, or a csv file")
        shots += found.shots
        skipped += found.skipped
    classes = sorted({shot.label for shot in shots})
    where = " and ".join(repr(str(source)) for source in given)
    if not classes:
        raise UserError(
            f"{where} gives no labels: make one folder a class with pictures inside, or a csv with file and label"
        )
    if len(classes) == 1:
        raise UserError(f"{where} gives one class only, {classes[0]!r}: add at least one other, to tell it from")
    return Support(shots, skipped, unknown)


def of_folders(root: Path) -> Support:
    """The class is the first folder below the root; the pictures may lie deeper."""
    shots, (files, skipped) = [], find_pictures(root)
    for file in files:
        first, *deeper = os.path.relpath(file, root).split(os.sep)
        label = composed(from_folder(to_text(first))).strip()  # as in tables, where a space at the end is not seen
        if not (deeper and label):
            skipped.append(Skipped(file, "in no class folder"))
        elif not _is_no_class(label):
            shots.append(Shot(file, label))
    return Support(shots, skipped)


def table_shots(
    table: Path, images: str | Path, support: Sequence[str | Path] = (), strict: bool = True, unknown: bool = False
) -> Iterator[Shot]:
    """The rows that count. Files that are nowhere are an error, or else named as if they were in `images`.

    A file is looked up beside the table, then at its place in `images`, or first there if the row has a guess, as we
    wrote it then; then in the folders of `support`; a mere name at last anywhere below all of those. The page in the
    browser knows mere names alone, so any file of that name may be meant, and different ones are an error.
    `unknown`: also the rows that were corrected to that.
    """
    folders = [images, *filter(os.path.isdir, support)]
    anywhere: dict[str, list[str]] | None = None
    for row in _counting(table, unknown):
        line, name, label, guess = row
        near = (table.parent, images) if guess is None else (images, table.parent)
        there = list(_places(name, *near))[: 1 if guess is None else None] or list(_places(name, *folders[1:]))
        mere = not os.path.dirname(os.path.normpath(name))
        if mere and (not there or guess == BY_PAGE):
            anywhere = _by_name(folders) if anywhere is None else anywhere
            ways = map(os.path.normpath, (name, from_text(name)))
            there += next((anywhere[way] for way in ways if way in anywhere), [])
        other = next((file for file in there[1:] if not _same(there[0], file)), None)
        if other is not None and strict:
            raise UserError(
                f"line {line} of {str(table)!r} names {name!r}, which is {to_text(there[0])!r} and, another file, "
                f"{to_text(other)!r}: write the full path of the one that is meant, or move the other away"
            )
        file = there[0] if there and other is None else None
        if file is None and _is_no_class(label):
            continue  # of a picture that is not there there is nothing to say
        if file is None and strict:
            where = ("below " if mere else "in ") + " or ".join(repr(str(folder)) for folder in folders)
            raise UserError(
                f"line {line} of {str(table)!r} names {name!r}, which is neither beside it nor {where}: correct "
                f"the name, remove the line, or add its folder as --support"
            )
        yield Shot(file or os.path.join(images, name), label, row.by_table)


def listed_shots(table: Path) -> Iterator[Shot]:
    """The rows that count, also those corrected to `unknown`; files named as a manifest names them."""
    for row in _counting(table, unknown=True):
        yield Shot(os.path.normpath(from_text(row.file)), row.label, row.by_table)


def nothing_lost(table: Path, shots: Iterable[Shot], label_now: Callable[[str], str | None]) -> None:
    """Corrections in a labels.csv that is about to be replaced must be among the labels of this run."""
    if lost := [shot.file for shot in shots if shot.by_table and label_now(shot.file) != shot.label]:
        raise UserError(
            f"{str(table)!r} holds {count(len(lost), 'correction')} that would be lost, such as {to_text(lost[0])!r}: "
            f"add it as --support, or move it away"
        )


def _counting(table: Path, unknown: bool = False) -> Iterator[Row]:
    for row in _rows(table):
        if _is_no_class(row.label):
            if unknown and row.label:
                yield row
        elif row.guess != row.label or row.guess in (BY_FOLDER, BY_TABLE, BY_PAGE):
            yield row


def _places(name: str, *folders: str | Path) -> Iterator[str]:
    """Of each folder the first way to read the name that leads to a file."""
    for folder in folders:
        ways = (os.path.join(folder, way) for way in (name, from_text(name)))
        yield from islice(filter(os.path.isfile, ways), 1)


def _same(one: str, other: str) -> bool:
    try:
        return filecmp.cmp(one, other, shallow=False)
    except OSError:
        return False


def _by_name(folders: Iterable[str | Path]) -> dict[str, list[str]]:
    """The pictures at any depth, by their names without folders."""
    found: dict[str, list[str]] = {}
    for folder in filter(os.path.isdir, folders):
        for file in find_pictures(folder).files:
            found.setdefault(os.path.basename(file), []).append(file)
    return found


def _rows(table: Path) -> Iterator[Row]:
    try:
        with open(table, newline="", encoding="utf-8-sig") as file:
            header = file.readline()
            file.seek(0)
            reader = csv.reader(file, delimiter=max(DELIMITERS, key=header.count))
            columns = [name.strip().casefold() for name in next(reader, [])]
            if not {"file", "label"} <= set(columns):
                raise UserError(f"{str(table)!r} has no columns file and label: name them in its first line")
            if twice := {name for name in ("file", "label", "guess") if columns.count(name) > 1}:
                raise UserError(f"{str(table)!r} has several columns {twice.pop()}: leave one of them")
            place = {name: columns.index(name) for name in ("file", "label", "guess") if name in columns}
            for cells in reader:
                if len(cells) <= max(place["file"], place["label"]):
                    continue  # an empty line
                label = class_of_cell(composed(cells[place["label"]]).strip())
                guess = composed(cells[place["guess"]]).strip() if place.get("guess", len(cells)) < len(cells) else None
                label = UNKNOWN if label.casefold() == UNKNOWN else label
                yield Row(reader.line_num, cells[place["file"]], label, guess and class_of_cell(guess))
    except (UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{str(table)!r} cannot be read as csv ({error}): save it as csv in UTF-8") from error


def _is_no_class(label: str) -> bool:
    return not label or label.casefold() == UNKNOWN
