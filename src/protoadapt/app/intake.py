"""Uploaded files → pictures with features. What is no picture, too large or too much is listed; the rest is kept."""

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
    path: str  # where it lies here
    name: str  # what its owner calls it


class Limits(NamedTuple):
    bytes: int  # of a file
    pictures: int  # of a board


class Taken(NamedTuple):
    seen: dict[str, Picture]
    skipped: list[Skipped]


def take_in(
    uploads: Sequence[Upload],
    board: Board,
    network: nn.Module,
    about: Mapping[str, Any],
    limits: Limits,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> Taken:
    """Reads, checks and embeds. Pictures that the board has are not computed again, and need no room."""
    full = f"there is room for {limits.pictures:,} pictures"
    fine, skipped = [], [Skipped(upload.name, full) for upload in uploads[limits.pictures :]]
    for upload in uploads[: limits.pictures]:
        if (wrong := _too_large(upload.path, limits.bytes)) is None:
            fine.append(upload)
        else:
            skipped.append(Skipped(upload.name, wrong))
    store = Store(None, about["weights"], about["size"])
    if board.pictures:
        known = [bytes.fromhex(key) for key in board.pictures]
        store.add(known, np.stack([picture.feature for picture in board.pictures.values()]))
    contents, broken = embed_files([upload.path for upload in fine], network, about, store, on_progress)
    skipped += [Skipped(fine[place].name, reason) for place, reason in broken.items()]

    # The first file of each content; a picture that is here already comes back as it is.
    first = {content.hex(): upload for upload, content in zip(fine[::-1], contents[::-1]) if content is not None}
    seen = {key: board.pictures[key] for key in first if key in board.pictures}
    new = [(key, upload) for key, upload in reversed(first.items()) if key not in seen]
    room = max(0, limits.pictures - len(board.pictures))
    skipped += [Skipped(upload.name, full) for _, upload in new[room:]]
    for (key, upload), thumb in zip(new[:room], ahead(_thumbnail, [upload.path for _, upload in new[:room]], 64)):
        if thumb is None:
            skipped.append(Skipped(upload.name, "it cannot be shown"))
        else:
            seen[key] = Picture(upload.name, thumb, store.rows([bytes.fromhex(key)])[0])
    return Taken(seen, skipped)


def _too_large(path: str, most: int) -> str | None:
    try:
        size = os.stat(path).st_size
    except OSError:
        return "it is gone: drop it once more"
    return None if size <= most else f"{size / (1 << 20):,.0f} MB, and {most >> 20} MB is the most"


def _thumbnail(path: str) -> bytes | None:
    try:
        return thumbnail(read_file(path))
    except Exception:  # a broken file may fail in any way
        return None
