"""What the page asks its server, as JSON over HTTP: boards, pictures, changes, the map, files to download."""

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

from protoadapt.app import bodies
from protoadapt.app.board import LONGEST
from protoadapt.app.boards import Boards
from protoadapt.app.downloads import DOWNLOADS
from protoadapt.app.intake import LARGE, SMALL, Limits, Upload, read_uploads, table_labels
from protoadapt.app.map_points import Maps
from protoadapt.app.session import Session
from protoadapt.core.errors import UserError
from protoadapt.labeling.names import UNKNOWN, from_folder
from protoadapt.report.label_page import BOARD_FILES
from protoadapt.vision.pictures.formats import SUFFIXES, readable

FILES = 64
"""Files per request."""
SIDES = {"small": SMALL, "large": LARGE}
FOREVER = {"Cache-Control": "private, max-age=31536000, immutable"}
NO_BOARD = "This board is no longer on the server."
TYPES = {".js": "text/javascript", ".css": "text/css", ".html": "text/html", ".svg": "image/svg+xml"}


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
    routes, pages, maps = APIRouter(include_in_schema=False), static_files(), Maps()

    def session(board: str) -> Session:
        found = service.boards.get(board)
        if found is None:
            raise HTTPException(404, NO_BOARD)
        return found

    @routes.get("/")
    def page() -> Response:
        return Response(pages["index.html"], media_type="text/html", headers={"Cache-Control": "no-cache"})

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

    @routes.delete("/api/boards/{board}")
    def remove_board(board: str) -> dict[str, bool]:
        service.boards.remove(session(board).id)
        return {"removed": True}

    @routes.get("/api/boards/{board}")
    def whole_board(board: str, since: int = 0, names: bool = True) -> dict[str, Any]:
        return state(session(board), service.metadata, since, names)

    @routes.post("/api/boards/{board}/pictures")
    async def add_pictures(board: str, request: Request) -> dict[str, Any]:
        """A form with `files`, and `paths` and `labels`, JSON lists with one entry per file."""
        here = session(board)
        if not bodies.is_form(request):
            raise UserError(bodies.NO_FORM)
        async with request.form(max_files=FILES, max_fields=8) as form:
            if not (files := bodies.files_of(form)):
                raise UserError(bodies.NO_FORM)
            names = bodies.texts(form, "paths", [part.filename for part in files])
            labels = bodies.texts(form, "labels", [None] * len(files))
            uploads = [Upload(clean_path(name), await part.read()) for name, part in zip(names, files)]
            drop, folder = str(form.get("drop") or "")[:40], _title(str(form.get("folder") or ""))
        return await run_in_threadpool(_add, service, here, uploads, labels, drop, folder)

    @routes.post("/api/boards/{board}/table")
    async def add_table(board: str, request: Request) -> dict[str, Any]:
        """The text of a csv with the columns file and label."""
        here, text = session(board), await bodies.text_body(request)
        return await run_in_threadpool(_add_table, here, text)

    @routes.post("/api/boards/{board}/changes")
    def changes(
        board: str, revision: int, steps: Annotated[list[Any], Depends(bodies.steps)], since: int = 0
    ) -> Response:
        """Patches {patch, words} in order, or {"undo": 1}, {"redo": 1}; the answer is the board after them.

        Where the board has another revision than the page knows, nothing is changed and the answer is 409.
        """
        here = session(board)
        with here.lock:
            if here.revision != revision:
                return JSONResponse(state(here, service.metadata, since), 409)
            for step in steps:
                if "undo" in step or "redo" in step:
                    (here.undo if "undo" in step else here.redo)()
                else:
                    words = step.get("words")
                    here.change(step.get("patch") or {}, words[:200] if isinstance(words, str) else "change")
            return JSONResponse(state(here, service.metadata, since))

    @routes.get("/api/boards/{board}/{size}/{place}")
    def copy(board: str, size: str, place: int) -> Response:
        here = session(board)
        if size not in SIDES or not 0 <= place < len(here.board.pictures):
            raise HTTPException(404)
        try:
            content = here.copy(here.board.pictures[place].key, SIDES[size]).read_bytes()
        except FileNotFoundError:
            raise HTTPException(404) from None
        return Response(content, media_type="image/webp", headers=FOREVER)

    @routes.get("/api/boards/{board}/map")
    def plane(board: str, kind: str = "pca") -> dict[str, Any]:
        return maps.points(session(board), service.metadata, kind)

    @routes.get("/api/boards/{board}/{name}")
    def download(board: str, name: str) -> Response:
        here = session(board)
        if name not in DOWNLOADS:
            raise HTTPException(404)
        content, kind = DOWNLOADS[name](here, service.metadata)
        headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
        return Response(content, media_type=kind, headers=headers)

    return routes


def state(session: Session, metadata: Mapping[str, Any], since: int = 0, names: bool = True) -> dict[str, Any]:
    """The board as the page holds it; of pictures, which never change, only those from `since` on.

    names: whether all pictures are named first, which takes a moment.
    """
    with session.lock:
        board, named = session.board, session.named(metadata) if names else None
        known: dict[str, Any] = {"id": session.id, "revision": session.revision, "since": since}
        known |= {"pictures": [{"name": picture.name} for picture in board.pictures[max(0, since) :]]}
        known |= {"classes": list(board.classes), "labels": dict(board.labels), "gone": sorted(board.gone)}
        known |= {"skipped": [list(one) for one in board.skipped[-200:]], "n_skipped": len(board.skipped)}
        known |= {"undo": _words(session.done), "redo": _words(session.undone)}
        if not names:
            return known
        result = None if named is None else named.result
        known |= {"calibrated": bool(result and result["calibrated"])}
        if result is not None:
            return known | _answers(session, result)
        first = session.first()
        rest = [place for place in board.present if place not in board.labels and place not in first]
        return known | {"answers": None, "next": [*first, *rest], "suggested": len(first), "reasons": first}


def _answers(session: Session, result: Mapping[str, Any]) -> dict[str, Any]:
    """One list per value, with an entry per picture: short in JSON, and quick to read."""
    board, number = session.board, {name: place for place, name in enumerate(session.board.classes)}
    size = len(board.pictures)
    columns: dict[str, list[Any]] = {"label": [-1] * size, "second": [-1] * size}
    columns |= {key: [0.0] * size for key in ("confidence", "margin")} | {"unknown": [0] * size}
    for place, record in zip(board.present, result["pictures"]):
        columns["label"][place] = number[record["label"]]
        columns["second"][place] = number.get(record["runner_up"], -1)
        columns["confidence"][place] = round(record["confidence"], 4)
        columns["margin"][place] = round(record["margin"], 4)
        columns["unknown"][place] = int(record["unknown"])
    place_of = {record["file"]: place for place, record in zip(board.present, result["pictures"])}
    reasons = {place_of[one["file"]]: one["reason"] for one in result["next"]}
    asked = [place for place in board.present if place not in board.labels and place not in reasons]
    rest = sorted(asked, key=lambda place: (columns["margin"][place], place))
    return {"answers": columns, "next": [*reasons, *rest], "suggested": len(reasons), "reasons": reasons}


def _add(
    service: Service, session: Session, uploads: list[Upload], labels: list[str | None], drop: str, folder: str
) -> dict[str, Any]:
    known = {picture.key for picture in session.board.pictures}
    room = min(service.limits.pictures - len(known), service.boards.left())
    answers, skipped = read_uploads(
        uploads, known, max(0, room), service.network, service.metadata, service.limits, session.keep
    )
    session.add(answers, skipped, [_label(label) for label in labels], drop, folder)
    return {"revision": session.revision, "skipped": [list(one) for one in skipped]}


def _add_table(session: Session, text: bytes) -> dict[str, Any]:
    patch, missing = table_labels(session.board, text)
    session.change(patch, "labels of a table")
    return {"labelled": len(patch["labels"]), "missing": missing[:20], "n_missing": len(missing)}


def _label(label: str | None) -> str | None:
    """The label of a folder; pictures of a folder `unknown` have none, as in `label --support`."""
    name = "".join(c for c in from_folder(label or "") if c.isprintable()).strip()[:LONGEST]
    return None if name.casefold() in ("", UNKNOWN) else name


def _title(folder: str) -> str:
    """The name of a folder as one line of text."""
    return "".join(c for c in folder if c.isprintable()).strip()[:LONGEST]


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
