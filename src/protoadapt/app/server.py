"""The server of the page: one process with one temporary folder that is removed at the end; no network access.

uvicorn waits forever for the rest of a request, and for its answer to be taken; and where sockets run out Python writes
a traceback for every failed `accept`, megabytes per second. So every connection has to keep a lowest rate, those that
are waited for give way to new ones, and nothing is written of what fails.
"""

import asyncio
import logging
import os
import re
import secrets
import signal
import socket
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from torch import nn
from uvicorn import Config, Server
from uvicorn.protocols.http.h11_impl import H11Protocol

from protoadapt import __version__
from protoadapt.app.api import ERRORS, Service, board_routes
from protoadapt.app.guard import Guard, is_loopback
from protoadapt.app.intake import Limits
from protoadapt.app.predict_api import Predictor, predict_routes
from protoadapt.app.session import ID, Boards
from protoadapt.core.errors import UserError
from protoadapt.core.files import locked, scratch_folder, write_text
from protoadapt.labeling.classifier import Classifier
from protoadapt.vision.pictures.formats import quiet_pillow

MOST_REQUEST = 4
"""A request, which may hold many files, is cut off at so many times the limit of one file."""
SECONDS, SLOWEST, GRACE = 10.0, 2048, 10
"""Seconds over which a connection has to move so many bytes each, and those that requests have to end at the end."""
MOST_WAITING, BACKLOG = 120, 32
"""Connections whose other side is waited for, and those that wait to be accepted."""
TOKEN, TOKEN_FILE = re.compile(r"[A-Za-z0-9_-]{16,256}"), ".token"


def serve(
    network: nn.Module,
    metadata: Mapping[str, Any],
    *,
    limits: Limits,
    host: str = "127.0.0.1",
    port: int = 7860,
    token: str | None = None,
    keep: Path | None = None,
    classifier: Classifier | None = None,
    on_ready: Callable[[str], None] = print,
) -> None:
    """Serves the page until Ctrl-C or SIGTERM; `on_ready` is called with the address to open.

    network, metadata: of `vision.networks.load`. port: 0 takes any free one. token: required of every visitor;
    generated where `host` is not this computer only. keep: a folder in which boards outlive the server, with a token of
    its own where none is given. classifier: of the same network; adds the endpoint for programs (`predict_api`).
    """
    listed = token is None and is_loopback(host)
    needs_token = token is None and keep is not None
    token = checked_token(host, token)
    with (
        quiet_pillow(),
        listening_socket(host, port) as listener,
        _temporary_folder() as folder,
        kept_folder(keep) if keep else nullcontext(folder) as home,
    ):
        if needs_token:
            token = kept_token(home)
        boards = Boards(home, metadata["weights"], limits.pictures, keep is not None)
        app = page_app(Service(network, metadata, limits, boards, listed), classifier)
        place = f"[{host}]" if ":" in host else host
        on_ready(f"http://{place}:{listener.getsockname()[1]}/" + (f"?token={token}" if token else ""))
        for name in ("asyncio", "python_multipart"):  # which write of every socket or form that fails
            logging.getLogger(name).setLevel(logging.CRITICAL)
        guarded = Guard(app, token, MOST_REQUEST * limits.bytes)
        settings = {"log_level": "critical", "ws": "none", "server_header": False, "timeout_graceful_shutdown": GRACE}
        settings |= {"http": protocol(), "timeout_keep_alive": 5, "backlog": BACKLOG}
        Server(Config(guarded, **settings)).run(sockets=[listener])  # type: ignore[arg-type]


def page_app(service: Service, classifier: Classifier | None = None) -> FastAPI:
    """The page without its guard; with a classifier also the endpoint for programs and its OpenAPI description."""
    app = FastAPI(
        title="protoadapt",
        version=__version__,
        openapi_url="/openapi.json" if classifier else None,
        docs_url=None,
        redoc_url=None,
        exception_handlers=ERRORS,
    )
    if classifier:  # first: its addresses are no boards
        predictor = Predictor(service.network, service.metadata, classifier)
        app.include_router(predict_routes(predictor, service.limits))
    app.include_router(board_routes(service))
    return app


def checked_token(host: str, token: str | None) -> str | None:
    """The token of the user, or a new one where other computers can reach the page, or None."""
    if token is not None and not TOKEN.fullmatch(token):
        raise UserError("the token must have 16 to 256 letters, digits, - and _: leave it out to have one generated")
    return token or (None if is_loopback(host) else secrets.token_urlsafe(24))


def kept_token(home: Path) -> str:
    """The token of a folder of boards, made once, so that a page that is open goes on when its server starts again.

    Other users of this computer reach its address too, and would be shown all boards.
    """
    file = home / TOKEN_FILE
    token = file.read_text() if file.is_file() else ""
    if not TOKEN.fullmatch(token):
        token = secrets.token_urlsafe(24)
        write_text(file, token)
    return token


@contextmanager
def kept_folder(keep: Path) -> Iterator[Path]:
    """The folder of the boards that are kept, for one server at a time; no other user may look into it.

    Two servers would each add lines to the same log without knowing the other's.
    """
    try:
        keep.mkdir(parents=True, exist_ok=True, mode=0o700)
        if os.name == "posix" and keep.stat().st_mode & 0o077:
            if any(not (one.name.startswith(".") or ID.fullmatch(one.name)) for one in keep.iterdir()):
                raise UserError(
                    f"--keep {str(keep)!r} holds other files and is open to others: give a folder of its own"
                )
            keep.chmod(0o700)
            (keep / TOKEN_FILE).unlink(missing_ok=True)  # others may have read it, or put it there
    except OSError as error:
        raise UserError(f"--keep {str(keep)!r} cannot be used ({error.strerror}): give another folder") from error
    with locked(keep) as held:
        if held is False:
            raise UserError(
                f"--keep {str(keep)!r} is in use by another protoadapt serve: end that one, or give another folder"
            )
        yield keep.resolve()


def listening_socket(host: str, port: int) -> socket.socket:
    """A socket that listens at an address, bound before anything is loaded; port 0 takes any free port.

    It names its protocol, without which asyncio puts off the second part of an answer until the browser acknowledges
    the first, 40 ms later.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except (OSError, OverflowError) as error:
        listener.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise UserError(f"{host} port {port} cannot be used ({reason}): give another --port, or --host") from error
    listener.listen(BACKLOG)
    return listener


def protocol(seconds: float = SECONDS, most: int = MOST_WAITING) -> type[asyncio.Protocol]:
    """The class of connections for `uvicorn.Config(http=…)`, which slow ones cannot take from others.

    While the server waits for a request, for its body, or for an answer to be taken, SLOWEST bytes per second have to
    move, on the average of `seconds`. Where more than `most` are waited for, the one that is furthest behind is closed.
    """
    waiting: dict[Any, asyncio.TimerHandle] = {}

    class Connection(H11Protocol):
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._wait()

        def data_received(self, data: bytes) -> None:
            self._due += len(data)
            super().data_received(data)
            self._rest_if_ours()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._wait()
            self._rest_if_ours()

        def connection_lost(self, exc: Exception | None) -> None:
            self._rest()
            super().connection_lost(exc)

        def _wait(self) -> None:
            self._rest()
            if len(waiting) >= most:
                max(waiting, key=Connection._behind)._close()
            self._due = self.loop.time() * SLOWEST + self.transport.get_write_buffer_size()
            waiting[self] = self.loop.call_later(seconds, self._look)

        def _behind(self) -> float:
            """Bytes that did not move since `_wait` though they had to; 0 where it is the server that does not read."""
            unsent = self.transport.get_write_buffer_size()
            return 0 if self.flow.read_paused else self.loop.time() * SLOWEST + unsent - self._due

        def _look(self) -> None:
            if self._behind() > 0:
                self._close()
            else:
                self._wait()

        def _rest_if_ours(self) -> None:
            """While a whole request is answered, nothing is waited for."""
            if self.cycle is not None and not self.cycle.more_body and not self.cycle.response_complete:
                self._rest()

        def _rest(self) -> None:
            if self in waiting:
                waiting.pop(self).cancel()

        def _close(self) -> None:
            self._rest()
            self.transport.abort()

    return Connection


@contextmanager
def _temporary_folder() -> Iterator[Path]:
    """A private folder for all temporary files, removed when the process ends, or after a kill when the next starts."""

    def end(number: int, frame: Any) -> None:
        raise SystemExit(128 + number)

    # uvicorn handles signals while it runs and raises them again when it has finished: then these are called.
    for one in signal.Signals:
        if one.name in ("SIGTERM", "SIGHUP"):
            signal.signal(one, end)
    mask = os.umask(0o077)
    try:
        with scratch_folder(Path(tempfile.gettempdir()), "protoadapt-serve-") as folder:
            tempfile.tempdir = str(folder)
            yield folder.resolve()
    finally:
        tempfile.tempdir = None
        os.umask(mask)
