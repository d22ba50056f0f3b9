"""Small pictures for the report: WebP files in the folder .thumbs beside labels.json, whose records name them.

The report is one file, so its small pictures are copied into it (`with_images`). labels.json stays small: 340 pictures
took 2.8 MB when it held them itself.
"""

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from protoadapt.core.files import written_whole
from protoadapt.core.threads import ahead
from protoadapt.labeling.names import file_of
from protoadapt.vision.pictures.decode import PREVIEW, THUMB, data_url, thumbnail
from protoadapt.vision.pictures.read import read_file

Progress = Callable[[str, int, int], None]
"""Called with the name of a stage, how much of it is done, and of how much."""
FOLDER = ".thumbs"
NAME = re.compile(rf"{re.escape(FOLDER)}/[0-9a-f]{{64}}(-\d{{1,4}})?\.webp")
"""Of a small picture, relative to labels.json. Anything else in a file leads nowhere."""
SIDES = {350: 256, 600: 192, 1000: 160}
"""Pixels per side up to so many pictures."""
LARGEST_FOR = {256: 12_000, 192: 7_000, 160: 4_200, THUMB: 2_100}
"""Bytes of a small picture by its side: as text a third more, so that no report of 1,000 pictures has 6 MB."""
LARGEST = 1 << 18  # bytes of a small picture
KEYS = ("thumb", "preview")
THUMBS = 2000
"""Thumbnails in a larger report, at most two kilobytes each."""
LARGE_UNKNOWN = 200
"""Larger previews, beside those of the pictures to label next: the unknown."""
WEIGHT = 4
"""Thumbnails that give way to one preview, so that the size of the report stays the same."""


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
    return next((side for most, side in SIDES.items() if pictures <= most), None)


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
                small = thumbnail(read_file(file), side, LARGEST_FOR[side])
                name = name or f"{FOLDER}/{hashlib.sha256(small).hexdigest()}{size}.webp"
                with written_whole(out / name) as partial:
                    partial.write_bytes(small)
            return name
        except Exception:  # gone, in a tar file or on another machine; its label is right without a thumbnail
            return None

    return ahead(work, wanted, 64)


def thumbnails_ahead(root: str | Path, contents: Mapping[str, bytes], out: Path) -> None:
    """Writes the small pictures of a report before its records are there, where their size is known by now.

    root: the folder that files are relative to; contents: sha256 by name, of all pictures.
    """
    if side := side_for(len(contents)):
        for _ in write_thumbnails([(file_of(root, name), content, side) for name, content in contents.items()], out):
            pass


def add_thumbnails(
    document: dict[str, Any], root: str | Path, contents: Mapping[str, bytes], out: Path, on_progress: Progress
) -> None:
    """Writes the report's small pictures and names them in the records of a labels.json; arguments as above."""
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
                content = file.read(LARGEST)
                record = record | ({key: data_url(content)} if content.startswith(b"RIFF") else {})
    return record
