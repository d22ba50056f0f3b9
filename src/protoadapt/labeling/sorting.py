"""Pictures copied or linked into a folder a class, brought up to date on every run.

The list of what was made, with each file's size and time (or where a link leads), lies beside it. Only what is on that
list and still as it was made is ever replaced or removed: what people put there, moved or changed stays.
"""

import json
import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from protoadapt.core.errors import UserError
from protoadapt.core.files import written_whole
from protoadapt.labeling.names import from_text, to_folder, to_text
from protoadapt.vision.pictures.walk import Skipped

WAYS = ("copy", "link")
LIST = ".sorted.json"


class Sorted(NamedTuple):
    left_alone: int  # places that are somebody else's
    failed: list[Skipped]  # pictures that could not be put in their place; the others were


def check_folders(classes: Iterable[str]) -> None:
    """Asked before the work is done: for many disks names that differ in case alone are one folder."""
    taken: dict[str, str] = {}
    for name in classes:
        if (other := taken.setdefault(to_folder(name).casefold(), name)) != name:
            raise UserError(
                f"--sort would put the classes {other!r} and {name!r} into one folder on many computers: give them one "
                f"name or two that differ in more than case, or leave --sort out"
            )


def sort_pictures(folder: Path, wanted: Mapping[str, str], way: str) -> Sorted:
    """`wanted` maps places below the folder to pictures.

    A link is relative, so that both folders can move together.
    """
    for place in {os.path.dirname(place) for place in wanted}:
        _check_inside(folder, folder / place)
    made, left, failed = _read(folder), 0, []
    for place, mark in made.items():
        if place not in wanted and _mark(folder / place) == mark:
            _check_inside(folder, (folder / place).parent)
            (folder / place).unlink()
            _remove_empty(folder, (folder / place).parent)
    new = {place: _wish(folder / place, source, way) for place, source in wanted.items()}
    _write(folder, made | {place: mark for place, mark in new.items() if mark})  # first: an interrupted run's are ours
    for place, source in wanted.items():
        target, now = folder / place, _mark(folder / place)
        if now == new[place]:
            continue
        if now is not None and now != made.get(place):
            left += 1
            continue
        try:
            _put(target, source, way)
        except (OSError, UserError) as error:  # a name too long for this disk, a picture that has gone, …
            failed.append(Skipped(source, f"not sorted: {getattr(error, 'strerror', None) or error}"))
            new[place] = made.get(place, "")  # if the old one is still there, it is still ours
    _write(folder, {place: mark for place, mark in new.items() if mark})
    return Sorted(left, failed)


def _put(target: Path, source: str, way: str) -> None:
    """In place of what is there."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if way == "link":
        target.unlink(missing_ok=True)
        os.symlink(_relative(target, source), target)
        return
    with written_whole(target) as partial:
        shutil.copy2(source, partial)


def _check_inside(root: Path, folder: Path) -> None:
    real = os.path.join(os.path.realpath(root.parent), root.name)
    if os.path.commonpath([real, os.path.realpath(folder)]) != real:
        raise UserError(f"{str(folder)!r} leads out of {str(root)!r} by a link: remove the link")


def _wish(target: Path, source: str, way: str) -> str:
    if way == "link":
        return f"link {to_text(_relative(target, source))}"
    try:
        about = os.stat(source)
    except OSError:
        return ""  # gone: copying it says so
    return f"{about.st_size} {about.st_mtime_ns}"


def _relative(target: Path, source: str) -> str:
    return os.path.relpath(os.path.abspath(source), os.path.realpath(target.parent))


def _mark(path: Path) -> str | None:
    """What a file is, as far as a list remembers; None where there is nothing."""
    if os.path.islink(path):
        return f"link {to_text(os.readlink(path))}"
    try:
        about = os.stat(path)
    except OSError:
        return None
    return f"{about.st_size} {about.st_mtime_ns}"


def _read(folder: Path) -> dict[str, str]:
    """The list, less what would lead out of the folder: a list is a file like any other."""
    try:
        told = json.loads((folder / LIST).read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    pairs = told.items() if isinstance(told, dict) else ()
    inside = {from_text(place): mark for place, mark in pairs if isinstance(mark, str)}
    return {place: mark for place, mark in inside.items() if not os.path.isabs(place) and ".." not in Path(place).parts}


def _write(folder: Path, made: Mapping[str, str]) -> None:
    with written_whole(folder / LIST) as partial:
        partial.write_text(json.dumps({to_text(place): mark for place, mark in made.items()}, ensure_ascii=False))


def _remove_empty(root: Path, folder: Path) -> None:
    while folder != root and not any(folder.iterdir()):
        folder.rmdir()
        folder = folder.parent
