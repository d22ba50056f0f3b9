"""All sessions of one server: made, found by name, forgotten when nobody looks at them any more."""

import shutil
import threading
import time
from pathlib import Path
from typing import Any

from protoadapt.app.session import ID, LOG, Session, new_session, open_session
from protoadapt.core.errors import UserError
from protoadapt.core.untrusted import clean_json

MOST = 50
"""Sessions in memory at once."""
IDLE, EMPTY_IDLE = 3600.0, 120.0
"""Seconds without a sign of its page after which a session is forgotten; of one without pictures."""
CROWD = 10
"""All sessions together hold so many times the pictures that one may hold."""


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
            if len(self._open) >= MOST:
                raise UserError(f"this server already holds {MOST} boards: close one that is not needed, or try later")
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
        """The sessions on the disk that have pictures, the last used first; none of them is opened."""
        found = []
        for log in self.home.glob(f"*/{LOG}") if self.keep else ():
            pictures = sum(1 for _ in (log.parent / "pictures").glob("*-large.webp"))
            if pictures and ID.fullmatch(log.parent.name):
                known = {"id": log.parent.name, "used": log.stat().st_mtime, "pictures": pictures}
                found.append(known | {"title": _title(log)})
        return sorted(found, key=lambda one: -one["used"])

    def left(self) -> int:
        """How many more pictures all sessions together may take."""
        with self._lock:
            return self.room - sum(len(session.board.pictures) for session in self._open.values())

    def remove(self, name: str) -> None:
        """Forgets a session and deletes its folder."""
        with self._lock:
            session = self._open.pop(name, None)
            if session is not None:
                shutil.rmtree(session.folder, ignore_errors=True)

    def _forget(self) -> None:
        now = time.monotonic()
        for name, session in list(self._open.items()):
            empty = not session.board.pictures
            if now - session.seen > (EMPTY_IDLE if empty else IDLE):
                del self._open[name]
                if empty or not self.keep:
                    shutil.rmtree(session.folder, ignore_errors=True)


def _title(log: Path) -> str:
    """The name of the folder that a session began with, without opening it; empty where it is not known."""
    with open(log, "rb") as file:
        file.readline()
        first = file.readline(1 << 20)
    try:
        title = clean_json(first).get("folder", "")
    except (ValueError, AttributeError, RecursionError):
        return ""
    return title if isinstance(title, str) else ""
