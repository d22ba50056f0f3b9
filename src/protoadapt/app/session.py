"""A board that remembers: every change is a line of a log, so undo, redo and opening it again are the same thing.

`Boards` are all sessions of one server: made, found by name, forgotten when nobody looks at them any more.

A session is a folder:

    operations.jsonl   one line per step: {"patch": …, "words": …, "add": …}, {"undo": 1} or {"redo": 1}
    features/          the features of each batch of pictures, which is written before its line
    pictures/          two small copies of each picture
    title              the name of the first folder that was added

Lines are only ever added, and each is on the disk before the step is answered: a session whose server was killed is
whole up to its last answered step. A last line that was cut off is removed.
"""

import json
import os
import re
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save
from threadpoolctl import threadpool_limits

from protoadapt.app.board import (
    Board,
    BoardPicture,
    Patch,
    change,
    difference,
    labelling,
    name_board,
    with_pictures,
)
from protoadapt.app.intake import CROWD, LARGE, SMALL
from protoadapt.core.errors import UserError, clean_json, intact
from protoadapt.core.files import write_bytes, write_text
from protoadapt.core.threads import cores
from protoadapt.labeling.collection import Named

LOG, TITLE = "operations.jsonl", "title"
ID, KEY = re.compile(r"[A-Za-z0-9_-]{16}"), re.compile(r"[0-9a-f]{64}")
_MOST = 50
"""Sessions in memory at once."""
IDLE, EMPTY_IDLE = 3600.0, 120.0
"""Seconds without a sign of its page after which a session is forgotten; of one without pictures."""

R = TypeVar("R")


def _limit() -> None:
    """Half of the cores for torch in this thread; others, such as those that run a network, keep theirs."""
    import torch

    torch.get_num_threads()  # which sets this thread's number the first time
    threadpool_limits(max(1, cores() // 2), user_api="openmp")


_worker = ThreadPoolExecutor(1, initializer=_limit)
"""One thread for everything that the page computes with tensors.

Requests are answered by many threads. If each of them computed, each would start torch's threads for itself and keep
memory of its own for the next time, hundreds of megabytes with thousands of pictures.

A step of BAPA is a dozen short operations. Split over all cores, each of them waits for the slowest core, and the
browser needs one of them: beside another program, naming a thousand pictures took seconds in place of 0.2. So half of
the cores take part. The two large products of a naming are numpy's, which has threads of its own.
"""


def computed(function: Callable[..., R], *arguments: Any) -> R:
    """function(…), computed by the one thread after what others asked for before. Must not be called by that thread."""
    return _worker.submit(function, *arguments).result()


@dataclass
class Session:
    """One board with its history, in a folder of its own. All methods may be called from several threads."""

    folder: Path
    board: Board = field(default_factory=Board)
    done: list[tuple[str, Patch, Patch]] = field(default_factory=list)  # (words, patch, its inverse), to be undone
    undone: list[tuple[str, Patch, Patch]] = field(default_factory=list)
    revision: int = 0
    seen: float = field(default_factory=time.monotonic)
    lock: threading.RLock = field(default_factory=threading.RLock)
    tsne: tuple[list[int], Future[dict[str, Any]]] | None = None  # the places and points of its newest map
    _named: Named | None = None
    _named_at: int = -1  # revision
    _replaying: bool = False

    @property
    def id(self) -> str:
        return self.folder.name

    def change(self, patch: Patch, words: str) -> None:
        """A step that a person took; `words` name it where it can be undone."""
        with self.lock:
            self._take({"patch": patch, "words": words}, ())

    def turn(self, word: str) -> bool:
        """Takes the last step back, "undo", or takes it again, "redo"; False where there is none."""
        source, target = {"undo": (self.done, self.undone), "redo": (self.undone, self.done)}[word]
        with self.lock:
            if not source:
                return False
            self._write({word: 1})
            words, patch, back = source.pop()
            self.board = change(self.board, back if word == "undo" else patch)
            target.append((words, patch, back))
            self.revision += 1
            return True

    def add(
        self,
        pictures: Sequence[BoardPicture],
        contents: Sequence[str | None],
        labels: Sequence[str | None],
        drop: str = "",
        folder: str = "",
    ) -> None:
        """Adds new pictures of `intake.read_uploads`, the content of each file, and its label, None where it has none.

        Steps with the same `drop` are undone together. folder: the name of the folder that they come from.
        """
        with self.lock:
            board = with_pictures(self.board, pictures)
            new = board.pictures[len(self.board.pictures) :]
            place_of = {picture.key: place for place, picture in enumerate(board.pictures)}
            places = [None if key is None else place_of[key] for key in contents]
            given = {place: label for place, label in zip(places, labels) if place is not None and label is not None}
            patch = dict(labelling(board, given))
            patch["gone"] = {place: False for place in places if place in board.gone}
            words = f"add pictures\0{drop}" if drop else "add pictures"
            if "classes" in patch:  # portions of a drop arrive in any order, and its classes are to have one
                before = dict.fromkeys(self._start_of(words).classes)
                new_classes = [name for name in patch["classes"] if name not in before]
                patch["classes"] = [*before, *sorted(new_classes, key=_by_numbers)]
            line: dict[str, Any] = {"patch": patch, "words": words}
            if new:
                line["add"] = [[one.name, one.key, one.taken] for one in new]
                write_bytes(self._features(), save({"features": np.stack([one.feature for one in new])}))
            self._take(line, new)
            if folder and not title_of(self.folder):
                with suppress(OSError, UserError):  # the step is taken, whether or not the disk has room for this too
                    write_text(self.folder / TITLE, folder)

    def keep(self, key: str, copies: Sequence[bytes]) -> None:
        """Stores the copies of a picture for the page; `intake.read_uploads` calls it."""
        for side, copy in zip((LARGE, SMALL), copies):
            write_bytes(self._copy(key, side), copy, again=True)

    def _features(self) -> Path:
        """The file of the features of the next pictures, named by their place on the board."""
        return self.folder / "features" / f"{len(self.board.pictures):06d}.safetensors"

    def _copy(self, key: str, side: int) -> Path:
        return self.folder / "pictures" / f"{key}-{side}.webp"

    def copy(self, key: str, side: int) -> bytes | None:
        """A copy of a picture; None where it is not there whole, until the picture is dropped again."""
        file = self._copy(key, side)
        content = file.read_bytes() if file.is_file() else b""
        whole = content[:4] == b"RIFF" and int.from_bytes(content[4:8], "little") + 8 == len(content)
        return content if whole else None

    def named(self, metadata: Mapping[str, Any]) -> Named | None:
        """`name_board` of the present board, computed once per change."""
        with self.lock:
            if self._named_at != self.revision:
                self._named = computed(name_board, self.board, metadata)
                self._named_at = self.revision
            return self._named

    def _take(self, line: Mapping[str, Any], new: Sequence[BoardPicture]) -> None:
        """The step of a line: new pictures, and a patch. Those of one drop are one step."""
        words = line["words"]
        after = change(with_pictures(self.board, new), line["patch"])
        self._write(line)
        if difference(self.board, after):
            before = self._start_of(words)
            if before is not self.board:
                self.done.pop()
            self.done.append((words, difference(before, after), difference(after, before)))
            self.undone.clear()
        self.board = after
        self.revision += 1

    def _start_of(self, words: str) -> Board:
        """The board before a drop of which portions are there already; else the present one."""
        known = "\0" in words and self.done and self.done[-1][0] == words
        return change(self.board, self.done[-1][2]) if known else self.board

    def _write(self, line: Mapping[str, Any]) -> None:
        if self._replaying:
            return
        content = json.dumps(line).encode() + b"\n"
        with open(self.folder / LOG, "ab", buffering=0) as file:
            whole = file.tell()
            try:
                while content:
                    content = content[file.write(content) :]
                os.fsync(file.fileno())
            except BaseException:
                file.truncate(whole)  # the next line would continue half of this one
                raise

    def replay(self, lines: Iterable[Mapping[str, Any]]) -> None:
        """Takes the steps of a log again."""
        self._replaying = True
        for line in lines:
            if "patch" in line:
                self._take(line, self._stored(line) if "add" in line else ())
            else:
                self.turn(next(iter(line)))
        self._replaying = False

    def _stored(self, line: Mapping[str, Any]) -> list[BoardPicture]:
        """The pictures of a line, with features that can be compared with those before."""
        if not all(KEY.fullmatch(key) for _, key, _ in line["add"]):
            raise ValueError("it names files that are not its own")
        if not self._features().is_file():  # a pipe, for which reading would wait
            raise ValueError(f"{self._features().name} is no ordinary file")
        with safe_open(self._features(), "np") as tensors:
            rows = tensors.get_tensor("features")
        width = len(self.board.pictures[0].feature) if self.board.pictures else rows.shape[-1]
        if rows.shape != (len(line["add"]), width) or rows.dtype != np.float32 or not np.isfinite(rows).all():
            raise ValueError(f"{self._features().name} does not hold its features")
        return [BoardPicture(name, key, row, taken) for (name, key, taken), row in zip(line["add"], rows)]


def new_session(home: Path, weights: str) -> Session:
    """A session in a new folder below `home`, whose name nobody can guess."""
    session = Session(home / secrets.token_urlsafe(12))
    for name in ("features", "pictures"):
        (session.folder / name).mkdir(parents=True)
    session._write({"weights": weights})
    return session


def open_session(folder: Path, weights: str) -> Session:
    """The session that a folder holds, as it was after its last step. Raises UserError where it is damaged."""
    session, log = Session(folder), folder / LOG
    with intact(f"the session {folder.name} is damaged", "move its folder away"):
        content = log.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        head, *lines = map(clean_json, whole.splitlines())
        if head.get("weights") != weights:
            raise UserError(f"the session {session.id} was made with another model: serve it with that --model")
        session.replay(lines)
        os.truncate(log, len(whole))
        return session


def title_of(folder: Path) -> str:
    """The name of the first folder that was added to a session; empty where there was none."""
    file = folder / TITLE
    return file.read_text("utf-8", "replace")[:80] if file.is_file() else ""


def _by_numbers(name: str) -> list[tuple[bool, int, str]]:
    """Sorts names as people do: "plot 2" before "plot 10"."""
    return [(part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in re.split(r"(\d+)", name)]


class Boards:
    """The sessions below a folder. With `keep` they stay on the disk, and leave the memory only."""

    def __init__(self, home: Path, weights: str, most_pictures: int, keep: bool = False):
        self.home, self.weights, self.keep, self.room = home, weights, keep, CROWD * most_pictures
        self._open: dict[str, Session] = {}
        self._lock = threading.Lock()

    def new(self) -> Session:
        """A new session. Nobody's board gives way to it: a server that is full says so."""
        with self._lock:
            self._forget()
            if len(self._open) >= _MOST:
                raise UserError(f"this server already holds {_MOST} boards: close one that is not needed, or try later")
            session = new_session(self.home, self.weights)
            self._open[session.id] = session
            return session

    def get(self, name: str) -> Session | None:
        """The session of this name, from the disk where it is kept there; None where there is none."""
        if not ID.fullmatch(name):
            return None
        with self._lock:
            if name not in self._open and self.keep and (self.home / name / LOG).is_file():
                self._forget()
                self._open[name] = open_session(self.home / name, self.weights)
            if (session := self._open.get(name)) is not None:
                session.seen = time.monotonic()
            return session

    def kept(self) -> list[dict[str, Any]]:
        """The sessions on the disk that have pictures, the last used first; none of them is opened.

        `reason` says why one cannot be, and is empty elsewhere.
        """
        found = []
        for log in self.home.glob(f"*/{LOG}") if self.keep else ():
            known = {"id": log.parent.name, "used": 0.0, "pictures": 0, "title": "", "reason": ""}
            try:
                known |= {"used": log.stat().st_mtime, "title": title_of(log.parent)}
                known["pictures"] = sum(1 for _ in (log.parent / "pictures").glob(f"*-{LARGE}.webp"))
                known["reason"] = "" if log.is_file() else f"{LOG} is no ordinary file"
            except OSError as error:
                known["reason"] = error.strerror
            if ID.fullmatch(log.parent.name) and (known["pictures"] or known["reason"]):
                found.append(known)
        return sorted(found, key=lambda one: -one["used"])

    def left(self) -> int:
        """How many more pictures all sessions together may take."""
        with self._lock:
            return self.room - sum(len(session.board.pictures) for session in self._open.values())

    def _forget(self) -> None:
        now = time.monotonic()
        for name, session in list(self._open.items()):
            empty = not session.board.pictures
            if now - session.seen > (EMPTY_IDLE if empty else IDLE):
                del self._open[name]
                if empty or not self.keep:
                    shutil.rmtree(session.folder, ignore_errors=True)
