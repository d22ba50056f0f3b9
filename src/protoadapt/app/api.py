"""What the page asks its server, as JSON over HTTP: boards, pictures, changes, the map, files to download."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import PurePosixPath
from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse
from torch import nn

from protoadapt.app.board import LONGEST, Board, first_pictures, unnamed_groups
from protoadapt.app.downloads import KINDS, saved_file
from protoadapt.app.guard import too_much
from protoadapt.app.intake import FILES, LARGE, SMALL, Limits, Upload, read_form, read_uploads, table_labels
from protoadapt.app.map_points import map_points
from protoadapt.app.resemblance import alike, faults
from protoadapt.app.session import Boards, Session, computed, title_of
from protoadapt.core.errors import UserError, clean_json
from protoadapt.labeling.names import UNKNOWN, from_folder
from protoadapt.report.label_page import BOARD_FILES, labels_findings
from protoadapt.vision.pictures.formats import SUFFIXES, readable

LONGEST_TEXT = 16 << 20
"""Bytes of JSON or of a table: labels of 50,000 pictures, and to spare. Either takes many times that in memory."""
_STEPS = 1000
"""Steps in one request; each waits for the disk."""
SAVERS = 4
"""Files that are made at once: each takes a thread for seconds, and other requests need some of the forty."""
_SIDES = {"small": SMALL, "large": LARGE}
TYPES = {".js": "text/javascript", ".css": "text/css", ".html": "text/html", ".svg": "image/svg+xml"}


Sent = tuple[list[Upload], tuple[list[str | None], str, str]]
"""Pictures, and their labels, the name of the drop, and that of the folder as one line of text."""


@dataclass(frozen=True)
class Service:
    """What all requests share."""

    network: nn.Module
    metadata: Mapping[str, Any]
    limits: Limits
    boards: Boards
    listed: bool  # whether visitors may see the boards that are kept


def board_routes(service: Service) -> APIRouter:
    """The page and its requests."""
    routes, pages, savers = APIRouter(include_in_schema=False), static_files(), asyncio.Semaphore(SAVERS)

    def session(board: str) -> Session:
        found = service.boards.get(board)
        if found is None:
            raise HTTPException(404, "This board is no longer on the server.")
        return found

    Here = Annotated[Session, Depends(session)]

    @routes.get("/")
    def page() -> Response:
        return static("index.html")

    @routes.get("/static/{name}")
    def static(name: str) -> Response:
        if name not in pages:
            raise HTTPException(404)
        headers = {"Cache-Control": "no-cache"}
        return Response(pages[name], media_type=TYPES[PurePosixPath(name).suffix], headers=headers)

    @routes.get("/api/about")
    def about() -> dict[str, Any]:
        kept = service.boards.kept() if service.listed else []
        model, data = service.metadata["model"], service.metadata["trained_on"] or "unknown pictures"
        known = {"model": model, "trained_on": data, "formats": list(readable()), "suffixes": sorted(SUFFIXES)}
        known |= {"max_mb": service.limits.bytes >> 20, "max_pictures": service.limits.pictures, "files": FILES}
        return known | {"kept": kept, "keeps": service.boards.keep, "now": time.time()}

    @routes.post("/api/boards")
    def new_board() -> dict[str, str]:
        return {"id": service.boards.new().id}

    @routes.get("/api/boards/{board}")
    def whole_board(here: Here, since: int = 0, names: bool = True) -> dict[str, Any]:
        return state(here, service.metadata, since, names)

    @routes.post("/api/boards/{board}/pictures")
    def add_pictures(here: Here, sent: Annotated[Sent, Depends(sent_pictures)]) -> dict[str, Any]:
        known = {picture.key for picture in here.board.pictures}
        room = max(0, min(service.limits.pictures - len(known), service.boards.left()))
        uploads, given = sent
        network, metadata, limits = service.network, service.metadata, service.limits
        new, contents, skipped = read_uploads(uploads, known, room, network, metadata, limits, here.keep)
        here.add(new, contents, *given)
        place_of = {picture.key: place for place, picture in enumerate(here.board.pictures)}
        places = [place_of.get(content or "") for content in contents]
        return {"revision": here.revision, "places": places, "skipped": [list(one) for one in skipped]}

    @routes.post("/api/boards/{board}/table")
    def add_table(here: Here, text: Annotated[bytes, Depends(text_body)]) -> dict[str, Any]:
        """The text of a csv with the columns file and label."""
        patch, missing = table_labels(here.board, text)
        here.change(patch, "labels of a table")
        return {"labelled": len(patch["labels"]), "n_missing": len(missing)}

    @routes.post("/api/boards/{board}/changes")
    def changes(
        here: Here, revision: int, steps: Annotated[list[Any], Depends(sent_steps)], since: int = 0
    ) -> Response:
        """Patches {patch, words} in order, or {"undo": 1}, {"redo": 1}; the answer is the board after them.

        Where the board has another revision than the page knows, nothing is changed and the answer is 409.
        """
        with here.lock:
            stale = here.revision != revision
            for step in [] if stale else steps:
                if "undo" in step or "redo" in step:
                    here.turn("undo" if "undo" in step else "redo")
                else:
                    words = step.get("words")
                    here.change(step.get("patch") or {}, words[:200] if isinstance(words, str) else "change")
            return JSONResponse(state(here, service.metadata, since), 409 if stale else 200)

    @routes.get("/api/boards/{board}/alike/{place}")
    def like(here: Here, place: int) -> dict[str, Any]:
        with here.lock:
            board, named = here.board, here.named(service.metadata)
        if place not in board.present:
            raise HTTPException(404)
        return computed(alike, board, named, place)

    @routes.get("/api/boards/{board}/{size}/{place}")
    def copy(here: Here, size: str, place: int) -> Response:
        if size not in _SIDES or not 0 <= place < len(here.board.pictures):
            raise HTTPException(404)
        if (content := here.copy(here.board.pictures[place].key, _SIDES[size])) is None:
            raise HTTPException(404, "The copy of this picture is damaged: drop the picture again.")
        headers = {"Cache-Control": "private, max-age=31536000, immutable"}
        return Response(content, media_type="image/webp", headers=headers)

    @routes.get("/api/boards/{board}/map")
    def plane(here: Here, kind: str = "pca") -> dict[str, Any]:
        return map_points(here, service.metadata, kind)

    @routes.get("/api/boards/{board}/check")
    def check(here: Here) -> dict[str, Any]:
        return {"groups": computed(faults, here.board)}

    @routes.get("/api/boards/{board}/{name}")
    async def saved(here: Here, name: str) -> Response:
        if name not in KINDS:
            raise HTTPException(404)
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        async with savers:
            content = await run_in_threadpool(saved_file, here, service.metadata, name)
        return Response(content, media_type=KINDS[name], headers=headers)

    return routes


async def sent_pictures(request: Request) -> Sent:
    """A form: `files`; `paths` and `labels`, JSON lists with an entry per file; `drop` and `folder`, which are text."""
    form, files = await read_form(request) or ({}, [])
    if not files:
        raise UserError("the pictures must come as a form (multipart/form-data) with at least one part named files")

    def texts(name: str, default: list[Any]) -> list[Any]:
        found = _parsed(form[name]) if name in form else default
        if not isinstance(found, list) or len(found) != len(files) or {type(one) for one in found} - {str, type(None)}:
            raise UserError(f"{name} must be a JSON list with a text or null for each of the {len(files)} files")
        return found

    names = texts("paths", [one.name for one in files])
    uploads = [Upload(clean_path(name), one.content) for name, one in zip(names, files)]
    labels = [_label(label) for label in texts("labels", [None] * len(files))]
    return uploads, (labels, form.get("drop", "")[:40], _printable(form.get("folder", "")))


async def text_body(request: Request) -> bytes:
    """The body of a request that holds text."""
    content = bytearray()
    async for part in request.stream():
        content += part
        if len(content) > LONGEST_TEXT:
            raise too_much(f"this request is larger than {LONGEST_TEXT >> 20} MB")
    return bytes(content)


async def sent_steps(request: Request) -> list[dict[str, Any]]:
    """The changes that a page sends, a JSON list of objects."""
    found = _parsed(await text_body(request))
    if not isinstance(found, list) or len(found) > _STEPS or not all(isinstance(one, dict) for one in found):
        raise UserError(f"changes are a JSON list of up to {_STEPS:,} objects: load the page again")
    return found


def _parsed(text: str | bytes) -> Any:
    """JSON that anyone may have sent; None where it is none."""
    try:
        return clean_json(text)
    except (ValueError, RecursionError):
        return None


def state(session: Session, metadata: Mapping[str, Any], since: int = 0, names: bool = True) -> dict[str, Any]:
    """The board as the page holds it; of pictures, which never change, only those from `since` on.

    names: whether all pictures are named first, which takes a moment.
    """
    with session.lock:
        board, named = session.board, session.named(metadata) if names else None
        known: dict[str, Any] = {
            "id": session.id,
            "title": title_of(session.folder),
            "revision": session.revision,
            "since": since,
        }
        known |= {"pictures": [{"name": one.name, "taken": one.taken} for one in board.pictures[max(0, since) :]]}
        known |= {"classes": list(board.classes), "labels": dict(board.labels), "gone": sorted(board.gone)}
        known |= {"undo": _words(session.done), "redo": _words(session.undone)}
        if not names:
            return known
        reasons = computed(first_pictures, board) if named is None else {}
    record_of = dict(zip(board.present, named.result["pictures"])) if named else {}
    if named:
        place_of = {record["file"]: place for place, record in record_of.items()}
        reasons = {place_of[one["file"]]: one["reason"] for one in named.result["next"]}
    rest = [place for place in board.present if place not in board.labels and place not in reasons]
    rest.sort(key=lambda place: (round(record_of[place]["margin"], 4) if named else 0, place))
    known |= {"groups": computed(unnamed_groups, board, named)}
    known |= {"findings": labels_findings(named.result, groups=False) if named else []}
    known |= {"answers": _columns(board, record_of) if named else None}
    known |= {"calibrated": bool(named and named.result["threshold"] is not None), "reasons": reasons}
    return known | {"next": [*reasons, *rest], "suggested": len(reasons)}


def _columns(board: Board, record_of: Mapping[int, Mapping[str, Any]]) -> dict[str, list[Any]]:
    """One list per value, with an entry per picture: short in JSON, and quick to read."""
    number = {name: place for place, name in enumerate(board.classes)}
    none = {"label": -1, "second": -1, "confidence": 0.0, "margin": 0.0, "unknown": 0}
    rows = [none] * len(board.pictures)
    for place, record in record_of.items():
        sure = {key: round(record[key], 4) for key in ("confidence", "margin")}
        said = {"label": number[record["label"]], "second": number.get(record["runner_up"], -1)}
        rows[place] = said | sure | {"unknown": int(record["unknown"])}
    return {key: [row[key] for row in rows] for key in none}


def _label(label: str | None) -> str | None:
    """The label of a folder; pictures of a folder `unknown` have none, as in `label --support`."""
    name = _printable(from_folder(label or ""))
    return None if name.casefold() in ("", UNKNOWN) else name


def _printable(text: str) -> str:
    return "".join(c for c in text if c.isprintable()).strip()[:LONGEST]


def clean_path(name: str | None) -> str:
    """The path of a picture below the folder that was dropped: no root, no way up, no drive."""
    parts = [part for part in (name or "").replace("\\", "/").split("/") if part not in ("", ".", "..")]
    return "/".join(part[-255:] for part in parts[-8:]) or "picture"


def _words(history: list[Any]) -> str | None:
    return history[-1][0].partition("\0")[0] if history else None


def static_files() -> dict[str, bytes]:
    """Every file of the page by name: the board's modules, which reports share, and those that speak to the server."""
    board = resources.files("protoadapt.report")
    files = [*resources.files("protoadapt.app").joinpath("static").iterdir(), *map(board.joinpath, BOARD_FILES)]
    return {file.name: file.read_bytes() for file in files if PurePosixPath(file.name).suffix in TYPES}


def answer_error(request: Request, error: Exception) -> JSONResponse:
    """Bad input, in one sentence."""
    text = str(error)
    return JSONResponse({"error": text[:1].upper() + text[1:] + "."}, 503 if "already holds" in text else 400)


def answer_lack(request: Request, error: Exception) -> JSONResponse:
    """A disk that is full, memory or descriptors that have run out: nothing is changed, and it may pass."""
    reason = getattr(error, "strerror", None) or "not enough memory"
    return JSONResponse({"error": f"The server cannot do this now ({reason}): nothing was changed; try again."}, 503)


ERRORS: dict[Any, Any] = {UserError: answer_error, OSError: answer_lack, MemoryError: answer_lack}
