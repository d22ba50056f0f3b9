"""What people drop on a board: pictures, which get features, and tables of labels.

Files that are no pictures, too large or too many are listed as skipped.
"""

import hashlib
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import numpy as np
from starlette.requests import Request
from torch import nn

from protoadapt.app.board import Board, BoardPicture, Patch, labelling
from protoadapt.core.errors import UserError
from protoadapt.core.threads import ahead
from protoadapt.labeling.names import from_text, to_text
from protoadapt.labeling.support import lines_of
from protoadapt.vision.embed import batch_size, check_rows, embed_batches
from protoadapt.vision.pictures.decode import decode_bytes, shrunk, taken_at
from protoadapt.vision.pictures.formats import reason
from protoadapt.vision.pictures.walk import Skipped

FILES, FIELDS = 64, 8
"""Files per request, and other fields of its form."""
LARGE, SMALL = 800, 192
"""Pixels per side of the pictures that the page shows: one at a time, and many."""
CROWD = 10
"""All boards together hold so many times the pictures that one may hold."""
_network_lock = threading.Lock()  # one batch at a time: the network uses all cores by itself


class Upload(NamedTuple):
    """An uploaded file."""

    name: str  # on the computer it comes from
    content: bytes


class Limits(NamedTuple):
    """The largest sizes that the page accepts."""

    bytes: int  # per file
    pictures: int  # per board


class Read(NamedTuple):
    """What became of an upload: its content (sha256), pixels where it is new, and copies; or an error."""

    key: str = ""
    pixels: np.ndarray | None = None
    copies: Sequence[bytes] = ()
    taken: str = ""
    error: str = ""


async def read_form(request: Request) -> tuple[dict[str, str], list[Upload]] | None:
    """The fields of a form, and its parts named `files`; None where the request is no form."""
    if not request.headers.get("content-type", "").lower().startswith("multipart/form-data"):
        return None
    async with request.form(max_files=FILES, max_fields=FIELDS) as form:
        parts = [part for part in form.getlist("files") if not isinstance(part, str)]
        uploads = [Upload(part.filename or f"picture {i}", await part.read()) for i, part in enumerate(parts)]
        return {name: value for name, value in form.items() if isinstance(value, str)}, uploads


def read_upload(
    upload: Upload, metadata: Mapping[str, Any], limits: Limits, known: Collection[str] = (), sides: Sequence[int] = ()
) -> Read:
    """The pixels of a picture as the network takes them, and copies in WebP whose larger sides are `sides`."""
    if len(upload.content) > limits.bytes:
        return Read(error=f"{len(upload.content) / (1 << 20):,.0f} MB; the limit is {limits.bytes >> 20} MB")
    key = hashlib.sha256(upload.content).hexdigest()
    try:
        pixels = None if key in known else decode_bytes(upload.content, metadata["size"], metadata.get("resize"))
        return Read(key, pixels, shrunk(upload.content, *sides) if sides else (), taken_at(upload.content))
    except Exception as error:  # a broken file may fail in any way
        return Read(error=reason(error, upload.name))


def read_uploads(
    uploads: Sequence[Upload],
    known: Collection[str],
    room: int,
    network: nn.Module,
    metadata: Mapping[str, Any],
    limits: Limits,
    keep: Callable[[str, Sequence[bytes]], None],
) -> tuple[list[BoardPicture], list[str | None], list[Skipped]]:
    """Reads, checks and embeds files.

    known: contents (sha256) that are on the board, of which no features are computed. room: how many new pictures fit.
    keep: called with the content of a picture and its copies for the page, LARGE and SMALL, in WebP. Returns the
    new pictures, the content of each file, None where it is left out, and the files left out.
    """
    read = partial(read_upload, metadata=metadata, limits=limits, known=known, sides=(LARGE, SMALL))
    fresh: dict[str, tuple[str, np.ndarray, str]] = {}  # content: name, pixels, and when it was taken
    contents: list[str | None] = []
    skipped = []
    full = f"a board holds at most {limits.pictures:,} pictures, and all boards of this server {CROWD} times as many"
    for upload, one in zip(uploads, ahead(read, uploads, 16)):
        is_new = one.pixels is not None and one.key not in fresh
        if one.error or (is_new and len(fresh) >= room):
            skipped.append(Skipped(upload.name, one.error or full))
        elif is_new:
            fresh[one.key] = upload.name, one.pixels, one.taken  # type: ignore[assignment]
            keep(one.key, one.copies)
        elif one.key in known:
            keep(one.key, one.copies)  # those that it has may be damaged
        contents.append(one.key if one.key in known or one.key in fresh else None)
    pixels, size = [pixels for _, pixels, _ in fresh.values()], batch_size(network)
    batches = ((start, np.stack(pixels[start : start + size])) for start in range(0, len(pixels), size))
    with _network_lock:
        rows = [row for _, rows in embed_batches(network, metadata, batches) for row in check_rows(rows).numpy()]
    new = [BoardPicture(name, key, row, taken) for (key, (name, _, taken)), row in zip(fresh.items(), rows)]
    return new, contents, skipped


def table_labels(board: Board, text: bytes) -> tuple[Patch, list[str]]:
    """The patch of a csv of labels (`labeling.support`), and its files that are not on the board.

    A line is matched with a picture by its path, or by its name where only one picture has that.
    """
    by_path = {to_text(board.pictures[place].name): place for place in board.present}
    by_name: dict[str, list[int]] = {}
    for path, place in by_path.items():
        by_name.setdefault(PurePosixPath(path).name, []).append(place)
    labels: dict[int, str | None] = {}
    missing: list[str] = []
    for row in filter(lambda row: row.is_example, lines_of(text, "the table")):
        path = to_text(from_text(row.file.removeprefix("./")))
        alike = by_name.get(PurePosixPath(path).name, [])
        found = by_path.get(path, alike[0] if len(alike) == 1 else None)
        if found is None:
            missing.append(row.file)
        else:
            labels[found] = row.label
    if not labels:
        first = f", such as {missing[0]!r}" if missing else ""
        raise UserError(f"the table labels no picture of this board{first}: add the pictures first")
    return labelling(board, labels), missing
