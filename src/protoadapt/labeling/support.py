"""Labels that people give: one folder per class, or a table of files and labels such as a corrected labels.csv.

Every row of a table with a label is an example. labels.csv also holds the classifier's own guesses, and a guess that
comes back as truth would teach its own mistakes. So labels.csv has a column `guess`, the label at the time of writing:
a row is an example if its label differs from its guess, or if its guess was emptied, which confirms the label. For
labels that people gave, `guess` names their origin and they are examples again: "(folder) cat", "(table)", or "(page)"
of the page in the browser (`mark_of`). A guess of a class whose name begins with a bracket is written "(guess) NAME",
so that it is none of these (`guess_of`). A table without this column consists of examples only.
"""

import csv
import hashlib
import io
import os
from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple, TypeVar

from protoadapt.core.errors import UserError
from protoadapt.labeling import label_studio, names
from protoadapt.labeling.names import UNKNOWN, to_text
from protoadapt.labeling.sorting import LIST as SORTED
from protoadapt.vision.pictures.walk import LINK, Skipped, find_pictures, is_label_output, pictures_in

IN_FOLDER, IN_TABLE, ON_PAGE = 0, 1, 2
"""Origins of a label: a class folder; a table; the page in the browser."""
NO_CLASS = "pictures of no class are no examples"
DELIMITERS = ",;\t"  # spreadsheets use one or another, depending on the country

Key = TypeVar("Key", bound=Hashable)


class Example(NamedTuple):
    """A picture and the label that a person gave it."""

    file: str
    label: str  # a class, or UNKNOWN: of none of the classes
    source: Path  # the folder or table that says so
    by_table: bool = False  # whether the label is a table's own, which may exist nowhere else


class Examples(NamedTuple):
    """All examples, and the files of class folders that are none."""

    examples: list[Example]
    skipped: list[Skipped]

    def notes(self) -> list[str]:
        """Classes of tables that may be misspelt (`names.slips`)."""
        by_table, by_folder = (
            class_names(example for example in self.examples if example.by_table == table) for table in (True, False)
        )
        return names.slips(by_table, by_folder)


class Row(NamedTuple):
    """One line of a table."""

    line: int
    file: str  # as written
    label: str
    guess: str | None  # None: there is no such column

    @property
    def is_example(self) -> bool:
        return bool(self.label) and (self.label == UNKNOWN or self.guess != guess_of(self.label))

    @property
    def by_table(self) -> bool:
        return self.guess != mark_of(self.label, IN_FOLDER)


def guess_of(label: str) -> str:
    """What `guess` says where the label is the classifier's own: no mark, whatever a class is called."""
    return f"(guess) {label}" if label.startswith("(") else label


def mark_of(label: str, origin: int) -> str:
    """What `guess` says of an example with this label. A class folder is named, so that a changed label is noticed."""
    return (f"(folder) {names.class_cell(label)}", "(table)", "(page)")[origin]


def read_support(sources: Sequence[str | Path], images: str | Path | None = None, least: int = 2) -> Examples:
    """Reads the examples of class folders and tables.

    sources: folders that hold one folder per class, csv files with the columns file and label, and JSON exports of
    Label Studio. images: the folder
    in which the files of tables are looked up (`table_examples`); None where tables name pictures as a manifest does.
    least: the number of classes below which there is nothing to learn.
    """
    found = Examples([], [])
    for source in map(Path, sources):
        if source.is_dir():
            new = folder_examples(source)
            found = Examples(found.examples + new.examples, found.skipped + new.skipped)
        elif source.is_file() and source.suffix == ".json":
            folders = [] if images is None else [images, *filter(os.path.isdir, sources)]
            labels = label_studio.task_labels(source, folders)
            found.examples.extend(Example(file, label, source, True) for file, label in labels)
        elif source.is_file():
            found.examples.extend(table_examples(source, images, sources))
        else:
            raise UserError(f"there is no {str(source)!r}: give a folder with one folder per class, or a csv file")
    classes, gives = class_names(found.examples), " and ".join(repr(str(source)) for source in sources)
    for root in filter(Path.is_dir, map(Path, sources)):
        for folder, why in fruitless_folders(root, found.examples):
            name = class_of(os.path.basename(folder))
            if least and name not in classes and not name.startswith("."):
                raise UserError(
                    f"the class {name!r} has no picture in {folder!r} ({why}): add some, or remove the folder"
                )
            found.skipped.append(Skipped(folder, why))
    if len(classes) >= least:
        return found
    if classes:
        raise UserError(f"{gives} gives one class only, {classes[0]!r}: add examples of at least one other class")
    way = "make one folder per class with pictures inside, or a csv with file and label"
    for table in filter(os.path.isfile, sources):
        way = (
            f"write the class of some pictures into the column label of {str(table)!r}, at least one of each of two "
            f"classes, and run the same command again (guesses that nobody changed do not count)"
        )
    raise UserError(f"{gives} gives no labels: {way}")


def class_names(examples: Iterable[Example]) -> list[str]:
    """The classes of some examples, sorted."""
    return sorted({example.label for example in examples} - {UNKNOWN})


def folder_examples(root: Path) -> Examples:
    """The class is the first folder below the root (`class_of`); its pictures may be at any depth.

    What `label --sort` wrote can be given, all of it or a folder of unknown pictures, which then are left out.
    """
    if _is_of_no_class(root):
        return Examples([], [Skipped(str(root), NO_CLASS)])
    examples, (files, skipped) = [], find_pictures(root)
    for file in files:
        first, *deeper = os.path.relpath(file, root).split(os.sep)
        label = class_of(first)
        if not (deeper and label):
            skipped.append(Skipped(file, "in no class folder"))
        elif label.casefold() == UNKNOWN or _is_of_no_class(root / first):
            skipped.append(Skipped(str(root / first), NO_CLASS))
        else:
            examples.append(Example(file, label, root))
    return Examples(examples, skipped)


def _is_of_no_class(root: Path) -> bool:
    return (root.name == UNKNOWN or names.is_group(root.name)) and (root.parent / SORTED).is_file()


def class_of(folder: str) -> str:
    """The class of a folder by its name; as in tables, a space at the end is not visible."""
    return names.composed(names.from_folder(to_text(folder))).strip()


def fruitless_folders(root: Path, examples: Iterable[Example]) -> Iterator[Skipped]:
    """The folders of a folder of classes that gave no example, and why."""
    fruitful = {os.path.relpath(example.file, root).split(os.sep)[0] for example in examples if example.source == root}
    for name in [] if _is_of_no_class(root) else sorted(os.listdir(root)):
        folder = root / name
        of_none = class_of(name).casefold() == UNKNOWN or _is_of_no_class(folder)
        if name in fruitful or of_none or not folder.is_dir():
            continue
        if name.startswith("."):
            if any(pictures_in(folder)):
                yield Skipped(str(folder), "a hidden folder: rename it if it is a class")
        elif folder.is_symlink():
            yield Skipped(str(folder), LINK)
        elif not is_label_output(folder):
            skipped = find_pictures(folder).skipped
            yield Skipped(str(folder), skipped[0].reason if skipped else "it is empty")


def table_examples(
    table: Path, images: str | Path | None = None, support: Sequence[str | Path] = (), strict: bool = True
) -> Iterator[Example]:
    """The rows of a table that are examples, in order.

    A file is looked up beside the table, in `images` and in the folders of `support`, and the first is meant. If the
    row has a guess, `label` wrote the name, and then `images` come first and different files are an error. A name
    without folders is looked up at any depth if it is not there, or if it comes from the page in the browser, which
    knows such names only. With `strict=False` a file that is not found, or not unique, is named as if it were in
    `images`. Without `images` names stay as they are: a manifest's.
    """
    folders = [] if images is None else [images, *filter(os.path.isdir, support)]
    anywhere: dict[str, list[str]] = {}
    for row in filter(lambda row: row.is_example, table_rows(table)):
        line, name, label, guess = row
        if images is None:
            yield Example(os.path.normpath(names.from_text(name)), label, table, row.by_table)
            continue
        spellings = [os.path.normpath(spelling) for spelling in (name, names.from_text(name))]
        bare = not os.path.dirname(spellings[0])
        near = [table.parent, *folders] if guess is None else [images, table.parent, *folders[1:]]
        files = [file for place in near for file in _first_file(place, spellings)]
        if bare and (not files or guess == "(page)"):
            anywhere = anywhere or _by_name(folders)
            files += anywhere.get(spellings[0]) or anywhere.get(spellings[1], [])
        elif guess is None:
            files = files[:1]
        other = next((file for file in files[1:] if digest_of(file) != digest_of(files[0])), None)
        if other is not None and strict:
            raise UserError(
                f"line {line} of {str(table)!r} names {name!r}, which is {to_text(files[0])!r} and, another file, "
                f"{to_text(other)!r}: write the full path of the right one, or move the other away"
            )
        file = files[0] if files and other is None else None
        if file is None and label == UNKNOWN:
            continue  # it changes nothing
        if file is None and strict:
            where = ("below " if bare else "in ") + " or ".join(repr(str(folder)) for folder in folders)
            raise UserError(
                f"line {line} of {str(table)!r} names {name!r}, which is neither beside it nor {where}: correct "
                f"the name, remove the line, or give its folder with --support or --images"
            )
        yield Example(file or os.path.join(images, name), label, table, row.by_table)


def _first_file(folder: str | Path, spellings: Iterable[str]) -> Iterable[str]:
    """The first spelling of a name that is a file of the folder, if there is one."""
    return islice(filter(os.path.isfile, (os.path.join(folder, spelling) for spelling in spellings)), 1)


def one_per_picture(examples: Iterable[tuple[Key | None, Example]]) -> dict[Key, Example]:
    """The first example of each picture, by a key that identifies the picture (None: unreadable, left out).

    Two examples of one picture must agree.
    """
    first: dict[Key, Example] = {}
    for key, example in examples:
        if key is not None and (other := first.setdefault(key, example)).label != example.label:
            raise UserError(
                f"{to_text(other.file)!r} is labelled {other.label!r} in {str(other.source)!r} and "
                f"{to_text(example.file)!r}, the same picture, {example.label!r} in {str(example.source)!r}: keep one "
                f"of the two labels"
            )
    return first


def check_classes(examples: Iterable[Example], classes: Sequence[str], skipped: Sequence[Skipped]) -> None:
    """Every class with examples must have one that can be read."""
    if unread := [example for example in examples if example.label not in (*classes, UNKNOWN)]:
        why = f" ({skipped[-1].reason})" if skipped else ""
        raise UserError(
            f"no picture of the class {unread[0].label!r} can be read, such as {to_text(unread[0].file)!r}{why}: add "
            f"another example, or remove the class"
        )


def digest_of(file: str) -> bytes | None:
    """What identifies a picture; None where it cannot be read."""
    try:
        with open(file, "rb") as opened:
            return hashlib.file_digest(opened, "sha256").digest()
    except OSError:
        return None


def _by_name(folders: Iterable[str | Path]) -> dict[str, list[str]]:
    """The pictures at any depth, by their names without folders."""
    files: dict[str, list[str]] = {}
    for folder in filter(os.path.isdir, folders):
        for file in find_pictures(folder).files:
            files.setdefault(os.path.basename(file), []).append(file)
    return files


def table_rows(table: Path) -> Iterator[Row]:
    """The lines of a csv file that has the columns file and label."""
    yield from lines_of(table.read_bytes(), repr(str(table)))


def lines_of(content: bytes, table: str) -> Iterator[Row]:
    """The same of a file's content, in UTF-8 or as Excel writes it in western Europe; `table` is its name in errors."""
    try:
        try:
            file = io.StringIO(content.decode("utf-8-sig"), newline="")
        except UnicodeDecodeError:
            file = io.StringIO(content.decode("cp1252"), newline="")
        header = next(filter(str.strip, file), "")
        file.seek(0)
        reader = csv.reader(file, delimiter=max(DELIMITERS, key=header.count), strict=True)
        columns = [name.strip().casefold() for name in next(filter(None, reader), [])]
        if not {"file", "label"} <= set(columns) or any(columns.count(name) > 1 for name in ("file", "label", "guess")):
            raise UserError(
                f"{table} has no columns file and label, each once: name them in its first line, with a comma, "
                f"semicolon or tab between, write the class of some pictures into label and leave it empty for others"
            )
        place = {name: at for at, name in enumerate(columns)}
        guess = [place["guess"]] if "guess" in place else []
        for cells in reader:
            if len(cells) <= max(place["file"], place["label"]):
                continue  # an empty line
            texts = [names.composed(cells[at]).strip() for at in (place["label"], *guess) if at < len(cells)]
            label, *said = map(names.class_of_cell, texts)
            label = UNKNOWN if label.casefold() == UNKNOWN else label
            yield Row(reader.line_num, cells[place["file"]], label, said[0] if said else None)
    except (csv.Error, UnicodeDecodeError) as error:  # an open quotation would take all lines after it for one name
        raise UserError(
            f"{table} cannot be read as csv ({error}): check its quotation marks, and save it as csv in UTF-8"
        ) from error
