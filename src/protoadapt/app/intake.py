"""Uploaded files → pictures with features. Files that are no pictures, too large or too many are listed as skipped."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from torch import nn

from protoadapt.app.board import Board, Picture
from protoadapt.core.threads import ahead
from protoadapt.vision.embed import embed_files
from protoadapt.vision.feature_store import Store
from protoadapt.vision.pictures.decode import thumbnail
from protoadapt.vision.pictures.read import read_file
from protoadapt.vision.pictures.walk import Skipped


class Upload(NamedTuple):
    """An uploaded file."""

    path: str  # on the server
    name: str  # on the computer it comes from


class Limits(NamedTuple):
    """The largest sizes that the page accepts."""

    bytes: int  # per file
    pictures: int  # per board


def read_uploads(
    uploads: Sequence[Upload],
    board: Board,
    network: nn.Module,
    metadata: Mapping[str, Any],
    limits: Limits,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[dict[str, Picture], list[Skipped]]:
    """Reads, checks and embeds files: the pictures by content, and the files that are left out.

    Pictures of the board are not computed again and take no more room.
    """
    full = f"a page holds at most {limits.pictures:,} pictures"
    fine, skipped = [], [Skipped(upload.name, full) for upload in uploads[limits.pictures :]]
    for upload in uploads[: limits.pictures]:
        if (wrong := _too_large(upload.path, limits.bytes)) is None:
            fine.append(upload)
        else:
            skipped.append(Skipped(upload.name, wrong))
    store = Store(None, metadata["weights"], metadata["size"])
    if board.pictures:
        known = [bytes.fromhex(key) for key in board.pictures]
        store.add(known, np.stack([picture.feature for picture in board.pictures.values()]))
    contents, broken = embed_files([upload.path for upload in fine], network, metadata, store, on_progress)
    skipped += [Skipped(fine[place].name, reason) for place, reason in broken.items()]

    # The first file of each content; a picture of the board is returned as it is.
    first = {content.hex(): upload for upload, content in zip(fine[::-1], contents[::-1]) if content is not None}
    pictures = {key: board.pictures[key] for key in first if key in board.pictures}
    new = [(key, upload) for key, upload in reversed(first.items()) if key not in pictures]
    room = max(0, limits.pictures - len(board.pictures))
    skipped += [Skipped(upload.name, full) for _, upload in new[room:]]
    for (key, upload), thumb in zip(new[:room], ahead(_thumbnail, [upload.path for _, upload in new[:room]], 64)):
        if thumb is None:
            skipped.append(Skipped(upload.name, "no thumbnail can be made of it"))
        else:
            pictures[key] = Picture(upload.name, thumb, store.rows([bytes.fromhex(key)])[0])
    return pictures, skipped


def _too_large(path: str, most: int) -> str | None:
    try:
        size = os.stat(path).st_size
    except OSError:
        return "no longer there: upload it again"
    return None if size <= most else f"{size / (1 << 20):,.0f} MB; the limit is {most >> 20} MB"


def _thumbnail(path: str) -> bytes | None:
    try:
        return thumbnail(read_file(path))
    except Exception:  # a broken file may fail in any way
        return None
