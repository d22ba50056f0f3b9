"""Cases of the page: requests of any content, and servers that are killed or starved while somebody corrects labels.

What counts is what was answered: of a session that is opened again every answered step is there, and at most the one
more that was on its way.
"""

import http.client
import json
import os
import resource
import shutil
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from starlette.testclient import TestClient

from benchmarks.faults.damage import Rng, changed_bytes, changed_text, changed_value, nasty
from benchmarks.faults.processes import LONGEST, fresh, set_limit, started
from benchmarks.faults.reading import check
from benchmarks.faults.world import World
from protoadapt.app.api import SIDES, Service, state
from protoadapt.app.boards import Boards
from protoadapt.app.connections import bounded_log
from protoadapt.app.guard import Guard
from protoadapt.app.intake import Limits
from protoadapt.app.server import page_app
from protoadapt.app.session import LOG, Session, open_session
from protoadapt.labeling.classifier import load_classifier

JSON = {"content-type": "application/json"}
EDGE = "faultyboundary"
ANSWERED = ("pictures", "classes", "labels", "gone", "n_skipped", "undo", "redo")
"""Of a board's state, what people did."""


def form_of(files: dict[str, bytes], fields: dict[str, Any]) -> bytes:
    """The body of a form with files and JSON fields."""
    body = b""
    for name, value in fields.items():
        body += f'--{EDGE}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{json.dumps(value)}\r\n'.encode()
    for name, content in files.items():
        head = f'--{EDGE}\r\nContent-Disposition: form-data; name="files"; filename="{name}"\r\n\r\n'
        body += head.encode() + content + b"\r\n"
    return body + f"--{EDGE}--\r\n".encode()


FORM = {"content-type": f"multipart/form-data; boundary={EDGE}"}


# Requests of any content, in this process


class Board:
    """A page with one board of six pictures; made once, and again after a session of many steps."""

    def __init__(self, world: World):
        bounded_log()
        self.home = world.scratch / "boards"
        shutil.rmtree(self.home, ignore_errors=True)
        network, self.metadata = world.network
        boards = Boards(self.home, self.metadata["weights"], 100, keep=True)
        service = Service(network, self.metadata, Limits(100_000, 60), boards, listed=True)
        app = page_app(service, load_classifier(world.place / "named" / "classifier.safetensors"))
        self.client = TestClient(Guard(app, largest=1 << 20), base_url="http://127.0.0.1")
        self.id = self.client.post("/api/boards").json()["id"]
        self.address = f"/api/boards/{self.id}"
        files = {path.name: path.read_bytes() for path in world.some_pictures(6)}
        labels = ["a", "b", None, None, None, None]
        sent = self.client.post(f"{self.address}/pictures", content=form_of(files, {"labels": labels}), headers=FORM)
        check(sent.status_code == 200, "the board takes no pictures")

    def state(self) -> dict[str, Any]:
        answer = self.client.get(self.address)
        check(answer.status_code == 200, f"the board is gone: {answer.status_code} {answer.text[:200]}")
        return answer.json()

    def reopened(self) -> Session:
        return open_session(self.home / self.id, self.metadata["weights"])


def requests(rng: Rng, world: World) -> str:
    """Whatever is sent, there is an answer below 500, and the board is as its log says."""
    if world.board is None or world.board.state()["revision"] > 60:
        world.board = Board(world)
    board = world.board
    send = [_changes, _changes, _uploads, _predictions, _tables, _questions][rng.integers(6)]
    answer = send(rng, world, board, board.state())
    check(answer.status_code < 500, f"{answer.status_code}: {answer.text[:300]}")
    now = board.state()
    if rng.random() < 0.1:
        again = json.loads(json.dumps(state(board.reopened(), board.metadata)))
        check(all(again[key] == now[key] for key in ANSWERED), "the session opened again is another")
        for name in ("labels.csv", "classifier.safetensors"):
            check(board.client.get(f"{board.address}/{name}").status_code in (200, 400), f"no {name}")
    return "answered" if answer.status_code < 400 else "refused"


def _changes(rng: Rng, world: World, board: Board, now: dict[str, Any]) -> Any:
    steps: list[Any] = [
        {"patch": {"labels": {"1": "b", "3": None}, "classes": ["a", "b", "c"], "gone": {"2": True}}, "words": "x"},
        {"patch": {"labels": {"4": "unknown"}, "gone": {"2": False}}, "words": "y"},
        {"undo": 1},
        {"redo": 1},
    ]
    body = json.dumps(steps if rng.random() < 0.1 else changed_value(rng, steps)).encode()
    if rng.random() < 0.3:
        body = changed_bytes(rng, body)
    revision = now["revision"] if rng.random() < 0.9 else nasty(rng)
    return board.client.post(
        f"{board.address}/changes", params={"revision": _sendable(revision)}, content=body, headers=JSON
    )


def _uploads(rng: Rng, world: World, board: Board, now: dict[str, Any]) -> Any:
    files = {f"{i}.png": path.read_bytes() for i, path in enumerate(world.some_pictures(3, rng))}
    fields: dict[str, Any] = {"paths": ["x/1.png", "x/2.png", "3.png"], "labels": ["a", None, "c"], "drop": "d"}
    fields = fields if rng.random() < 0.2 else changed_value(rng, fields)
    body = form_of(files, fields if isinstance(fields, dict) else {})
    if rng.random() < 0.5:
        body = changed_bytes(rng, body)
    return board.client.post(f"{board.address}/pictures", content=body, headers=_kind(rng, FORM))


def _predictions(rng: Rng, world: World, board: Board, now: dict[str, Any]) -> Any:
    files = {f"{i}.png": path.read_bytes() for i, path in enumerate(world.some_pictures(2, rng))}
    body = form_of(files, {}) if rng.random() < 0.7 else next(iter(files.values()))
    body = changed_bytes(rng, body) if rng.random() < 0.7 else body
    return board.client.post("/api/predict", content=body, headers=_kind(rng, FORM))


def _tables(rng: Rng, world: World, board: Board, now: dict[str, Any]) -> Any:
    names = [one["name"] for one in now["pictures"]]
    body = ("file,label\r\n" + "".join(f"{name},{'ab'[i % 2]}\r\n" for i, name in enumerate(names))).encode()
    body = (changed_text if rng.random() < 0.6 else changed_bytes)(rng, body)
    return board.client.post(f"{board.address}/table", content=body, headers=_kind(rng, {"content-type": "text/csv"}))


def _questions(rng: Rng, world: World, board: Board, now: dict[str, Any]) -> Any:
    ends = ["", "/small/0", "/large/9", "/huge/0", "/map", "/labels.csv", "/report.html", "/x", "/../..", "/%00"]
    address = board.address + ends[rng.integers(len(ends))]
    if rng.random() < 0.3:
        address = "/api/" + quote(_sendable(nasty(rng))[:200])
    values = {key: _sendable(nasty(rng)) for key in ("since", "names", "kind", "revision") if rng.random() < 0.5}
    return board.client.request(["GET", "GET", "POST", "PUT"][rng.integers(4)], address, params=values)


def _kind(rng: Rng, usual: dict[str, str]) -> dict[str, str]:
    others = ["", "text/plain", "application/json", "multipart/form-data", "multipart/form-data; boundary=", "image/*"]
    others += ["application/x-www-form-urlencoded", f"MULTIPART/FORM-DATA; boundary={EDGE}; charset=utf-99"]
    return usual if rng.random() < 0.75 else {"content-type": others[rng.integers(len(others))]}


def _sendable(value: Any) -> str:
    """As text of an address, in which a client escapes whatever is no ASCII."""
    return str(value)[:3000].encode("utf-8", "replace").decode()


# Servers that are killed or starved


class Visitor(threading.Thread):
    """Somebody who makes a board and corrects it until the server answers no more.

    lines: of the log, as far as steps were answered; last: the last answer that was a whole board, after `at` lines.
    """

    def __init__(self, address: str, rng: Rng, world: World, board: str, lines: int, most: int):
        super().__init__(daemon=True)
        self.rng, self.world, self.board, self.lines, self.most = rng, world, board, lines, most
        self.server = http.client.HTTPConnection(urlsplit(address).netloc, timeout=LONGEST)
        self.last: Any = None
        self.at, self.problem = 0, ""

    def run(self) -> None:
        with suppress(OSError, http.client.HTTPException):  # the server was killed
            try:
                self._correct()
            except (AssertionError, KeyError, ValueError) as error:
                self.problem = repr(error)

    def _ask(self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None) -> Any:
        self.server.request(method, path, body, headers or {})
        answer = self.server.getresponse()
        content = json.loads(answer.read())
        full = answer.status == 503 or "cannot be written" in str(content)
        check(answer.status == 200 or full, f"{answer.status}: {str(content)[:300]}")
        return content if answer.status == 200 else None

    def _correct(self) -> None:
        if not self.board:
            made = self._ask("POST", "/api/boards")
            if made is None:
                return
            self.board, self.lines = made["id"], 1
        address = f"/api/boards/{self.board}"
        self.last, self.at = self._ask("GET", address), self.lines
        for _ in range(self.most):
            state = self.last
            if len(state["pictures"]) < 6 or (self.rng.random() < 0.2 and len(state["pictures"]) < 18):
                files = {f"{i}.png": p.read_bytes() for i, p in enumerate(self.world.some_pictures(3, self.rng))}
                fields = {"labels": ["a", "b", None], "drop": str(self.rng.integers(5))}
                if self._ask("POST", f"{address}/pictures", form_of(files, fields), FORM) is None:
                    continue
                self.lines += 1
                self.last, self.at = self._ask("GET", address), self.lines
                continue
            step: Any = {"undo": 1} if state["undo"] and self.rng.random() < 0.2 else None
            place, label = int(self.rng.integers(len(state["pictures"]))), "ab"[self.rng.integers(2)]
            step = step or {"patch": {"labels": {str(place): label}, "classes": ["a", "b"]}, "words": "label"}
            body = json.dumps([step]).encode()
            done = self._ask("POST", f"{address}/changes?revision={state['revision']}", body, JSON)
            if done is not None:
                self.lines += 1
                self.last, self.at = done, self.lines


def kills(rng: Rng, world: World) -> str:
    """A server with --keep is killed, or short of disk, while somebody corrects; perhaps twice on the same board."""
    out, board, how = fresh(world), "", "killed"
    for _ in range(rng.integers(1, 3)):
        log = out / "kept" / board / LOG
        lines = len(log.read_bytes().splitlines()) if board else 0
        short, most = rng.random() < 0.25, int(rng.integers(200, 6000))
        how = "short of disk" if short else how
        limit: Callable[[], None] = partial(set_limit, resource.RLIMIT_FSIZE, most) if short else lambda: None
        child = started(world, "page", out, limit)
        try:
            visitor = Visitor(_address(child, out), rng, world, board, lines, most=30 if short else 10_000)
            visitor.start()
            visitor.join(LONGEST if short else rng.uniform(0, 1.5))
        finally:
            for kill in (os.killpg, os.kill):
                with suppress(ProcessLookupError):
                    kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        visitor.join(LONGEST)
        check(not visitor.is_alive(), "a request is never answered")
        check(not visitor.problem, visitor.problem)
        said = (out / "said").read_text(errors="replace")
        check("Traceback" not in said, said[-1500:])
        board = visitor.board
        if board:
            _check_kept(out / "kept" / board, visitor, world)
    return how


def _address(child: int, out: Path) -> str:
    """Where the server is, which it says when it is ready."""
    begin = time.monotonic()
    while time.monotonic() - begin < LONGEST:
        said = (out / "said").read_text(errors="replace") if (out / "said").exists() else ""
        if said.startswith("Open http") and "\n" in said:
            return said.split()[1]
        check("error" not in said and not os.waitpid(child, os.WNOHANG)[0], f"the server does not start: {said[-500:]}")
        time.sleep(0.01)
    raise AssertionError("the server does not start")


def _check_kept(folder: Path, visitor: Visitor, world: World) -> None:
    """Every answered step is in the log, at most one more, and the board after them is the last answer."""
    session, log = open_session(folder, world.weights), folder / LOG
    lines = log.read_bytes().splitlines(keepends=True)
    check(len(lines) - visitor.lines in (0, 1), f"{visitor.lines} steps were answered, {len(lines)} are in the log")
    if visitor.last is not None:
        log.write_bytes(b"".join(lines[: visitor.at]))
        found, last = _done(open_session(folder, world.weights)), _done_of(visitor.last)
        log.write_bytes(b"".join(lines))
        check(found == last, f"an answered step is lost or changed: {found} instead of {last}")
    copies = [session.copy(picture.key, side) for picture in session.board.pictures for side in SIDES.values()]
    check(all(copy.read_bytes()[:4] == b"RIFF" for copy in copies), "a picture is half-written")
    if session.board.pictures:
        session.change({"labels": {0: "b"}, "classes": ["a", "b"]}, "afterwards")
        check(open_session(folder, world.weights).board.labels[0] == "b", "it cannot be continued")


def _done(session: Session) -> dict[str, Any]:
    return _done_of(json.loads(json.dumps(state(session, {}, names=False))))


def _done_of(state: dict[str, Any]) -> dict[str, Any]:
    return {key: state[key] for key in ANSWERED}
