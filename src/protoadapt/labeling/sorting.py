"""`label --sort`: pictures copied or linked into one folder per class, updated on every run.

A list of the files made, with each file's size and time (or a link's target), is kept in the folder. Only files on that
list that are still as they were made are replaced or removed: whatever people add, move or change stays.
"""

import json
import os
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from protoadapt.core.errors import UserError
from protoadapt.core.files import write_text, written_whole
from protoadapt.labeling.names import from_text, to_folder, to_text
from protoadapt.vision.pictures.walk import Skipped

WAYS = ("copy", "link")
LIST = ".sorted.json"


def check_way(sort: str | None, classes: Iterable[str] = ()) -> None:
    """Raises UserError where `sort` is no way to put pictures into folders (None: not asked for), or where folders of
    two classes differ only in case, which are one folder on many disks."""
    if sort is not None and sort not in WAYS:
        raise UserError(f"--sort is {sort!r}: choose copy or link")
    owners: dict[str, str] = {}
    for name in classes if sort else ():
        if (other := owners.setdefault(to_folder(name).casefold(), name)) != name:
            raise UserError(f"--sort would put {other!r} and {name!r} into one folder on many disks: rename one class")


def sort_pictures(folder: Path, wanted: Mapping[str, str], way: str) -> tuple[int, list[Skipped]]:
    """Puts pictures in place; `wanted` maps places below the folder to pictures, `way` is "copy" or "link".

    A link is relative, so that both folders can move together. Returns the number of places that are left alone, as
    files of other origin are there, and the pictures that could not be put in place.
    """
    made, left, failed = _read(folder), 0, []
    root = os.path.join(os.path.realpath(folder.parent), folder.name)
    for place in {os.path.dirname(place) for place in (*made, *wanted)}:
        if os.path.commonpath([root, os.path.realpath(folder / place)]) != root:
            raise UserError(f"{str(folder / place)!r} leads out of {str(folder)!r}: remove the link there, or {LIST}")
    for place, mark in made.items():
        if place not in wanted and _mark(folder / place) == mark:
            (folder / place).unlink()
            with suppress(OSError):  # up to a folder that holds something, such as the list
                os.removedirs((folder / place).parent)
    new = {place: _mark_after(folder / place, source, way) for place, source in wanted.items()}
    # The list is written first, so that the files of an interrupted run are known.
    _write(folder, made | {place: mark for place, mark in new.items() if mark})
    for place, source in wanted.items():
        now = _mark(folder / place)
        if now == new[place]:
            continue
        if now is not None and now != made.get(place):
            left += 1
            continue
        try:
            put(folder / place, source, way)
        except (OSError, UserError) as error:  # a name too long for this disk, a picture that is gone, …
            failed.append(Skipped(source, f"not sorted: {getattr(error, 'strerror', None) or error}"))
            new[place] = made.get(place, "")  # an old file that is still there stays on the list
    _write(folder, {place: mark for place, mark in new.items() if mark})
    return left, failed


def put(target: Path, source: str, way: str, final: Path | None = None) -> None:
    """Copies or links a picture, in place of what is there; `final`: where a link will be moved to."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if way == "link":
        target.unlink(missing_ok=True)
        os.symlink(_relative(final or target, source), target)
        return
    with written_whole(target, again=True) as partial:
        shutil.copy2(source, partial)


def _mark_after(target: Path, source: str, way: str) -> str:
    """The entry that a file will have once it is in place; empty where the picture is gone, which copying reports."""
    return f"link {to_text(_relative(target, source))}" if way == "link" else _mark(os.path.realpath(source)) or ""


def _relative(target: Path, source: str) -> str:
    return os.path.relpath(os.path.abspath(source), os.path.realpath(target.parent))


def _mark(path: str | Path) -> str | None:
    """A file's entry in the list; None where there is no file."""
    if os.path.islink(path):
        return f"link {to_text(os.readlink(path))}"
    try:
        status = os.stat(path)
    except OSError:
        return None
    return f"{status.st_size} {status.st_mtime_ns}"


def _read(folder: Path) -> dict[str, str]:
    """The list, which anybody may have written."""
    try:
        return {from_text(place): mark for place, mark in json.loads((folder / LIST).read_bytes()).items()}
    except Exception:  # it may hold anything
        return {}


def _write(folder: Path, made: Mapping[str, str]) -> None:
    write_text(folder / LIST, json.dumps({to_text(place): mark for place, mark in made.items()}, ensure_ascii=False))
