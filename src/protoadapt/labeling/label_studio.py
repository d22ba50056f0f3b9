"""What people labelled in Label Studio as examples: the file of its export "JSON".

A task has the address of its picture, which may lie below another root here, and in each annotation the choices that
somebody made. Predictions are no examples.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from protoadapt.core.errors import UserError, clean_json, intact
from protoadapt.labeling.names import UNKNOWN, composed, from_text, to_text
from protoadapt.vision.pictures.walk import find_pictures

UPLOADED = re.compile(r"/data/upload/\d+/[0-9a-f]{8}-")
"""Where Label Studio keeps what was uploaded to it, under names that begin with a random number."""


def task_labels(export: Path, folders: Sequence[str | Path]) -> Iterator[tuple[str, str]]:
    """(file, class) of each task that has an annotation; pictures are looked up in the folders, at any depth.

    Without folders names stay as they are: a manifest's.
    """
    with intact(f"{str(export)!r} is no JSON export of Label Studio", "export the project as JSON"):
        labelled = [(_place(task["data"]), _choices(task)) for task in clean_json(export.read_bytes())]
    by_name: dict[str, list[str]] = {}
    for file in chain.from_iterable(find_pictures(folder).files for folder in folders):
        by_name.setdefault(os.path.basename(file), []).append(file)
    for place, choices in labelled:
        if len(choices) > 1:
            raise UserError(f"{str(export)!r} gives {place!r} {len(choices)} classes: a picture has one")
        if choices:
            (label,) = choices
            below = os.path.normpath(os.path.join(folders[0], place)) if folders else os.path.normpath(place)
            exact = not folders or (os.path.dirname(place) and os.path.isfile(below))
            yield (
                below if exact else _nearest(place, by_name, export),
                UNKNOWN if label.casefold() == UNKNOWN else label,
            )


def _place(data: Mapping[str, Any]) -> str:
    """The path of a task's picture: as `export` wrote it, or from the address."""
    if "file" in data:
        return from_text(data["file"])
    address = next(value for value in data.values() if isinstance(value, str))
    parts = urlsplit(UPLOADED.sub("", address))
    local = parts.query.removeprefix("d=") if parts.query.startswith("d=") else parts.path
    return unquote(local).lstrip("/")


def _choices(task: Mapping[str, Any]) -> set[str]:
    given = [one for one in task.get("annotations", ()) if not one.get("was_cancelled")]
    results = chain.from_iterable(one["result"] for one in given)
    chosen = [result["value"]["choices"] for result in results if result["type"] == "choices"]
    if not all(isinstance(names, list) and all(isinstance(name, str) for name in names) for names in chosen):
        raise ValueError("a choice is no list of texts")
    return {name for names in chosen for name in (composed(name).strip() for name in names) if name}


def _nearest(place: str, by_name: Mapping[str, Sequence[str]], export: Path) -> str:
    """The picture of that name whose folders agree with most of the path, from its end."""

    def agreement(file: str) -> int:
        pairs = zip(reversed(Path(file).parts), reversed(Path(place).parts))
        return next((i for i, (one, other) in enumerate(pairs) if one != other), len(Path(place).parts))

    files = sorted(sorted({*by_name.get(os.path.basename(place), ())}), key=agreement, reverse=True)
    if not files or (len(files) > 1 and agreement(files[0]) == agreement(files[1])):
        many = f"could be {to_text(files[0])!r} or {to_text(files[1])!r}" if files else "is in none of the folders"
        raise UserError(f"{str(export)!r} names {to_text(place)!r}, which {many}: give the folder of these pictures")
    return files[0]
