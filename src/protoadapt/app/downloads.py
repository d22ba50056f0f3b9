"""The files that a board can be saved as."""

from collections.abc import Mapping
from io import BytesIO
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

from protoadapt.app.board import name_board
from protoadapt.app.intake import LARGE
from protoadapt.app.session import Session, title_of
from protoadapt.core.errors import UserError
from protoadapt.core.files import csv_text, file_cell
from protoadapt.core.threads import ahead
from protoadapt.labeling.classifier import classifier_bytes
from protoadapt.labeling.dataset_export import FORMS, dataset_files
from protoadapt.labeling.names import class_cell, to_text
from protoadapt.labeling.outputs import LARGEST_FOR, labels_csv_text, side_for
from protoadapt.report.label_page import labels_page
from protoadapt.vision.pictures.decode import THUMB, data_url, shrunk

KINDS = {
    "labels.csv": "text/csv; charset=utf-8",
    "report.html": "text/html; charset=utf-8",
    "classifier.safetensors": "application/octet-stream",
    **{f"{form}.zip": "application/zip" for form in FORMS},
}
"""Every file that a board can be saved as, and its media type."""


def saved_file(session: Session, metadata: Mapping[str, Any], name: str) -> bytes:
    """The content of one of KINDS. Before two classes have an example, a table has the labels that were given."""
    named, board = session.named(metadata), session.board
    if named is None and name == "labels.csv" and board.labels:
        labels = [(board.pictures[place].name, board.labels[place]) for place in board.present if place in board.labels]
        return csv_text(
            [("file", "label"), *((file_cell(to_text(file)), class_cell(c)) for file, c in labels)]
        ).encode()
    if named is None:
        raise UserError("there is nothing to save yet: give a picture of each of two classes its name")
    if name == "labels.csv":
        return labels_csv_text(named.result).encode()
    if name == "classifier.safetensors":
        return classifier_bytes(named.classifier)
    if name == "report.html":
        return _report(session, metadata).encode()
    # A dataset of another tool without the pictures, of which the page has small copies only: unpack it beside them.
    packed = BytesIO()
    with ZipFile(packed, "w", ZIP_DEFLATED) as archive:
        for file, text in dataset_files(named.result, name.removesuffix(".zip")).items():
            archive.writestr(file, text)
    return packed.getvalue()


def _report(session: Session, metadata: Mapping[str, Any]) -> str:
    with session.lock:
        board = session.board
    result = name_board(board, metadata, paths=True).result  # type: ignore[union-attr]
    result["title"] = title_of(session.folder) or result["title"]
    side = side_for(len(board.present)) or THUMB

    def thumb(place: int) -> str | None:
        content = session.copy(board.pictures[place].key, LARGE)
        return data_url(shrunk(content, side, largest=LARGEST_FOR[side])[0]) if content else None

    for record, small in zip(result["pictures"], ahead(thumb, board.present, 64)):
        record["thumb"] = small
    return labels_page(result)
