"""Pictures copied or linked into a folder a class, brought up to date on every run.

The list of what was made, with each file's size and time (or where a link leads), lies beside it. Only what is on that
list and still as it was made is ever replaced or removed: what people put there, moved or changed stays.
"""

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from protoadapt.errors import UserError
from protoadapt.files import written_whole
from protoadapt.labeling.names import from_text, to_text

WAYS = ("copy", "link")
LIST = ".sorted.json"


def sort_pictures(folder: Path, wanted: Mapping[str, str], way: str) -> int:
    """`wanted` maps places below the folder to pictures. Returns how many places were somebody else's, and left alone.

    A link is relative, so that both folders can move together.
    """
    for place in {os.path.dirname(place) for place in wanted}:
        _check_inside(folder, folder / place)
    made, left = _read(folder), 0
    for place, mark in made.items():
        if place not in wanted and _mark(folder / place) == mark:
            _check_inside(folder, (folder / place).parent)
            (folder / place).unlink()
            _remove_empty(folder, (folder / place).parent)
    new = {place: _wish(folder / place, source, way) for place, source in wanted.items()}
    _write(folder, made | new)  # before the files: an interrupted run's are known for ours
    for place, source in wanted.items():
        target, now = folder / place, _mark(folder / place)
        if now == new[place]:
            continue
        if now is not None and now != made.get(place):
            left += 1
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        if now is not None:
            target.unlink()
        if way == "link":
            os.symlink(_relative(target, source), target)
        else:
            with written_whole(target) as partial:
                shutil.copy2(source, partial)
    _write(folder, new)
    return left


def _check_inside(root: Path, folder: Path) -> None:
    real = os.path.join(os.path.realpath(root.parent), root.name)
    if os.path.commonpath([real, os.path.realpath(folder)]) != real:
        raise UserError(f"{str(folder)!r} leads out of {str(root)!r} by a link: remove the link")


def _wish(target: Path, source: str, way: str) -> str:
    if way == "link":
        return f"link {to_text(_relative(target, source))}"
    about = os.stat(source)
    return f"{about.st_size} {about.st_mtime_ns}"


def _relative(target: Path, source: str) -> str:
    return os.path.relpath(os.path.abspath(source), os.path.realpath(target.parent))


def _mark(path: Path) -> str | None:
    """What a file is, as far as a list remembers; None where there is nothing."""
    if path.is_symlink():
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
