"""Access control for the page: a middleware in front of everything that is served.

A page that listens on this computer only can still be reached by every web site that its user has open: a site may send
requests to 127.0.0.1, and may give its own name that address (DNS rebinding). So without a token only the names of this
computer are answered, and requests sent by other sites never. A page that listens elsewhere requires a token: it comes
with the address once and is then a cookie, which keeps it out of later histories and logs; programs send it as
`Authorization: Bearer`.

A request has a limited size, and `server` closes connections on which it comes too slowly.
"""

import hashlib
import hmac
import ipaddress
import re

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""What a browser may load: files of this page, and pictures. Scripts and styles inside the markup do not run."""
_HEADERS = {
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
HOST = re.compile(r"(?:\[([0-9a-f]*:[0-9a-f:.]+)\]|([0-9a-z.-]+))(?::[0-9]{1,5})?", re.ASCII | re.IGNORECASE)
"""A Host header: an IPv6 address in brackets, or a name or an IPv4 address, and perhaps a port. Nothing else."""


def is_loopback(host: str) -> bool:
    """Whether only this computer can reach the host. A name other than localhost may lead anywhere."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def too_much(words: str) -> HTTPException:
    """A body is too long. The rest of it is not read: the connection ends."""
    return HTTPException(413, words, {"Connection": "close"})


class Guard:
    """ASGI middleware that refuses a request or passes it on with stricter headers.

    token: required of every visitor; None: this computer only. largest: bytes of a request's body.
    """

    def __init__(self, app: ASGIApp, token: str | None = None, largest: int = 64 << 20):
        self.app = app
        self.token = token
        mark = hashlib.sha256((token or "").encode()).hexdigest()[:8]  # all ports of a computer share their cookies
        self.cookie = f"protoadapt-{mark}"
        self.largest = largest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":  # the server takes no websockets
            return await self.app(scope, receive, send)

        async def stricter(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(_HEADERS)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        answer = self._refusal(Request(scope, receive)) or self.app
        await answer(scope, self._bounded(receive), stricter)

    def _bounded(self, receive: Receive) -> Receive:
        """Counts the bytes of a body."""
        taken = 0

        async def bounded() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > self.largest:
                raise too_much(f"This request is larger than {self.largest >> 20} MB.")
            return message

        return bounded

    def _refusal(self, request: Request) -> Response | None:
        host, origin = request.headers.get("host", ""), request.headers.get("origin")
        found = HOST.fullmatch(host)
        if "content-length" in request.headers and "transfer-encoding" in request.headers:
            words = "A request has either Content-Length or Transfer-Encoding: this one has both.\n"
            return PlainTextResponse(words, 400, {"Connection": "close"})  # where it ends, others may see elsewhere
        if self.token is None and not (found and is_loopback((found[1] or found[2]).lower())):
            return PlainTextResponse("This page answers to 127.0.0.1 and localhost only.\n", 403)
        foreign = request.headers.get("sec-fetch-site") == "cross-site" and request.method not in ("GET", "HEAD")
        if foreign or (origin is not None and origin.partition("://")[2] != host):
            return PlainTextResponse("Another site sent this request.\n", 403)
        return None if self.token is None else self._without_token(request, self.token)

    def _without_token(self, request: Request, token: str) -> Response | None:
        """None for requests with the token, else the answer to a request without."""
        if _equal(request.query_params.get("token"), token):
            answer = RedirectResponse("/", 303)
            answer.set_cookie(self.cookie, token, httponly=True, samesite="lax", secure=request.url.scheme == "https")
            return answer
        kind, _, sent = request.headers.get("authorization", "").partition(" ")
        if _equal(request.cookies.get(self.cookie), token) or (
            kind.lower() == "bearer" and _equal(sent.strip(), token)
        ):
            return None
        return PlainTextResponse("Open the whole address that `protoadapt serve` printed, ?token=… included.\n", 401)


def _equal(text: str | None, token: str) -> bool:
    """Compares in constant time."""
    return text is not None and hmac.compare_digest(text.encode("utf-8", "replace"), token.encode())
