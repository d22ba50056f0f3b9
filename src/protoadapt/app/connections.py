"""Connections that a server holds: bounded in number, and closed when a request does not arrive.

uvicorn waits for the rest of a request's headers forever, and where sockets run out Python writes a traceback for every
failed `accept`, megabytes per second. So each connection has a time limit for the headers of a request, and where there
are too many, the one that has been waiting longest for a request gives way to the new one: a visitor who sends a whole
request is always served.
"""

import asyncio
import logging
import socket
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

HEADER_SECONDS = 10.0
"""Time for the headers of a request."""
MOST = 120
"""Connections at once; fewer where the system allows fewer open files (`most_connections`)."""
SPARE, BACKLOG = 100, 32
"""Files that the server needs beside its connections, and connections that are accepted before one is closed."""
LINES = 20
"""Lines about failures of the network that are written."""


def listening_socket(host: str, port: int) -> socket.socket:
    """A socket that listens at an address; port 0 takes any free port. Raises OSError or OverflowError.

    It names its protocol, without which asyncio puts off the second part of an answer until the browser acknowledges
    the first, 40 ms later.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener


def protocol(most: int = MOST, seconds: float = HEADER_SECONDS) -> type[asyncio.Protocol]:
    """The class of connections for `uvicorn.Config(http=…)`, with limits of its own."""
    waiting: dict[Any, asyncio.TimerHandle] = {}  # for a request, in the order in which they began to

    class Connection(H11Protocol):
        """A connection that is closed where no whole header comes in time."""

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._wait()
            if len(self.connections) > most:
                oldest = next(iter(waiting))  # the new one, where everybody else is being served
                oldest._rest()
                oldest.transport.abort()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.cycle is not None and not self.cycle.response_complete:
                self._rest()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            if (self.cycle is None or self.cycle.response_complete) and not self.transport.is_closing():
                self._wait()

        def connection_lost(self, exc: Exception | None) -> None:
            self._rest()
            super().connection_lost(exc)

        def _wait(self) -> None:
            self._rest()
            waiting[self] = self.loop.call_later(seconds, self.transport.abort)

        def _rest(self) -> None:
            if self in waiting:
                waiting.pop(self).cancel()

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

    left = LINES

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
