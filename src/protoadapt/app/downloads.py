"""The files that a board can be saved as."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from io import BytesIO
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

from protoadapt.app.board import name_board
from protoadapt.app.intake import LARGE
from protoadapt.app.session import Session
from protoadapt.core.errors import UserError
from protoadapt.core.threads import ahead
from protoadapt.labeling.classifier import classifier_bytes
from protoadapt.labeling.collection import Named
from protoadapt.labeling.dataset_export import FORMS, dataset_files
from protoadapt.labeling.outputs import labels_csv_text
from protoadapt.labeling.thumbnails import LARGEST_FOR, side_for
from protoadapt.report.label_page import labels_page
from protoadapt.vision.pictures.decode import THUMB, data_url, thumbnail

Content = tuple[bytes, str]
NOTHING = "there is nothing to save yet: give a picture of each of two classes its name"


def _csv(session: Session, metadata: Mapping[str, Any]) -> Content:
    return labels_csv_text(_named(session.named(metadata)).result).encode(), "text/csv; charset=utf-8"


def _report(session: Session, metadata: Mapping[str, Any]) -> Content:
    with session.lock:
        board = session.board
    result = _in_order(_named(name_board(board, metadata, paths=True)).result, board.classes)
    result["title"] = session.title or result["title"]
    side = side_for(len(board.present)) or THUMB
    files = [session.copy(board.pictures[place].key, LARGE) for place in board.present]
    copies = ahead(lambda file: thumbnail(file.read_bytes(), side, LARGEST_FOR[side]), files, 64)
    for record, small in zip(result["pictures"], copies):
        record["thumb"] = data_url(small)
    return labels_page(result).encode(), "text/html; charset=utf-8"


def _in_order(result: dict[str, Any], classes: Sequence[str]) -> dict[str, Any]:
    """A result whose classes stand as on the board, so that each has the same colour, sign and key in the report."""
    old = {one["name"]: k for k, one in enumerate(result["classes"])}
    order = [old[name] for name in classes if name in old]
    result["classes"] = [result["classes"][k] for k in order]
    if paths := result["paths"]:
        place = {k: i for i, k in enumerate(order)}
        paths["row_label"] = [place.get(k, -1) for k in paths["row_label"]]
        paths["steps"] = [paths["steps"][k] for k in order]
    return result


def _classifier(session: Session, metadata: Mapping[str, Any]) -> Content:
    return classifier_bytes(_named(session.named(metadata)).classifier), "application/octet-stream"


def _export(form: str, session: Session, metadata: Mapping[str, Any]) -> Content:
    """A dataset of another tool without the pictures, of which the page has small copies only: a zip file to be
    unpacked into their folder."""
    packed = BytesIO()
    with ZipFile(packed, "w", ZIP_DEFLATED) as archive:
        for name, text in dataset_files(_named(session.named(metadata)).result, form).items():
            archive.writestr(name, text)
    return packed.getvalue(), "application/zip"


def _named(named: Named | None) -> Named:
    if named is None:
        raise UserError(NOTHING)
    return named


DOWNLOADS: dict[str, Callable[[Session, Mapping[str, Any]], Content]] = {
    "labels.csv": _csv,
    "report.html": _report,
    "classifier.safetensors": _classifier,
    **{f"{form}.zip": partial(_export, form) for form in FORMS},
}
