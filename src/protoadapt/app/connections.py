"""Connections that a server holds: bounded in number, and closed when a request does not arrive.

uvicorn waits for the rest of a request's headers forever, and where sockets run out Python writes a traceback for every
failed `accept`, megabytes per second. So each connection has a time limit for the headers of a request, and where there
are too many, the one that has been waiting longest for a request gives way to the new one: a visitor who sends a whole
request is always served.

An answer is sent as it is written. asyncio sees to that only for sockets that name their protocol, which those of
`socket.create_server` do not: the second part of an answer then waits for the browser to acknowledge the first, which
browsers put off by 40 ms.
"""

import asyncio
import logging
import socket
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

HEADER_SECONDS = 10.0
"""Time for the headers of a request, from the opening of the connection or the first byte."""
MOST = 120
"""Connections at once; fewer where the system allows fewer open files (`most_connections`)."""
SPARE, BACKLOG = 100, 32
"""Files that the server needs beside its connections, and connections that are accepted before one is closed."""
LINES = 20
"""Lines about failures of the network that are written."""


class Crowd:
    """The open connections, those that wait for a request in the order in which they began to."""

    def __init__(self, most: int):
        self.most = most
        self.all: set[Any] = set()
        self.waiting: dict[Any, None] = {}

    def enter(self, connection: Any) -> None:
        self.all.add(connection)
        if len(self.all) > self.most and self.waiting:
            next(iter(self.waiting)).give_way()
        elif len(self.all) > self.most:
            return connection.give_way()  # everybody else is being served
        self.wait(connection)

    def wait(self, connection: Any) -> None:
        self.waiting.pop(connection, None)
        self.waiting[connection] = None

    def leave(self, connection: Any) -> None:
        self.all.discard(connection)
        self.waiting.pop(connection, None)


def protocol(most: int = MOST, seconds: float = HEADER_SECONDS) -> type[asyncio.Protocol]:
    """The class of connections for `uvicorn.Config(http=…)`, with a crowd of its own."""
    crowd = Crowd(most)

    class Connection(H11Protocol):
        """A connection that is closed where no whole header comes in time."""

        _timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._watch()
            crowd.enter(self)

        def data_received(self, data: bytes) -> None:
            if self._timer is None and not self._serving():
                self._watch()
            super().data_received(data)
            if self._serving():
                self._unwatch()
                crowd.waiting.pop(self, None)

        def on_response_complete(self) -> None:
            super().on_response_complete()
            if not self._serving() and not self.transport.is_closing():
                crowd.wait(self)  # uvicorn's own limit for a kept connection runs now

        def connection_lost(self, exc: Exception | None) -> None:
            self._unwatch()
            crowd.leave(self)
            super().connection_lost(exc)

        def give_way(self) -> None:
            crowd.leave(self)
            self.transport.abort()

        def _serving(self) -> bool:
            return self.cycle is not None and not self.cycle.response_complete

        def _watch(self) -> None:
            self._unwatch()
            self._timer = self.loop.call_later(seconds, self.give_way)

        def _unwatch(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    return Connection


def most_connections() -> int:
    """MOST, or as many as the limit on open files leaves room for."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return MOST
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST if soft == resource.RLIM_INFINITY else max(4, min(MOST, soft - SPARE))


class Few(logging.Filter):
    """Lets a limited number of records through."""

    def __init__(self, most: int = LINES):
        super().__init__()
        self.left = most

    def filter(self, record: logging.LogRecord) -> bool:
        self.left -= 1
        record.exc_info = None  # one line, not a stack
        return self.left >= 0


def bounded_log() -> None:
    """asyncio writes about failing sockets as often as they fail: at most LINES lines of that.

    A form that cannot be read is answered with 400; the parser's own line about it, one per request, is not written.
    """
    logging.getLogger("python_multipart").setLevel(logging.CRITICAL)
    logger = logging.getLogger("asyncio")
    if not any(isinstance(one, Few) for one in logger.filters):
        logger.addFilter(Few())
