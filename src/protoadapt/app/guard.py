"""Access control for the page: a middleware in front of everything that is served.

A page that listens on this computer only can still be reached by every web site that its user has open: a site may send
requests to 127.0.0.1, and may give its own name that address (DNS rebinding). So without a token only the names of this
computer are answered, and requests sent by other sites never. A page that listens elsewhere requires a token: it comes
with the address once and is then a cookie, which keeps it out of later histories and logs.

A request may name files only in the folder of uploads. Gradio checks that too; we do not rely on it, as whoever gets
past that check reads every file of this computer.
"""

import hmac
import ipaddress
import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "protoadapt-token"
POLICY = "default-src 'self' data: blob: 'unsafe-inline' 'unsafe-eval'; frame-ancestors 'none'; form-action 'self'"
"""What a browser may load: gradio writes scripts into the page, but nothing comes from other hosts."""
UPLOAD = "/gradio_api/upload"
"""The address that takes files, which gradio stores under its own names; all others take JSON."""
MOST = 32 << 20
"""Largest request that is no upload, in bytes: the names of some tens of thousands of files."""
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}


def is_loopback(host: str) -> bool:
    """Whether only this computer can reach the host. A name other than localhost may lead anywhere."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class Guard:
    """ASGI middleware that refuses a request or passes it on with stricter headers.

    token: required of every visitor; None: this computer only. folder: where requests may name files; None: nowhere.
    """

    def __init__(self, app: ASGIApp, token: str | None = None, folder: Path | None = None):
        self.app = app
        self.token = token
        self.folder = folder

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self.app(scope, receive, send)
        if scope["type"] != "http":
            return await send({"type": "websocket.close", "code": 1008})  # the page uses none

        async def stricter(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        request = Request(scope, receive)
        answer: ASGIApp | None = self._refusal(request)
        if answer is None and request.method not in ("GET", "HEAD", "OPTIONS") and scope["path"] != UPLOAD:
            body = await _body(request)
            answer = self._refused_body(body)
            receive = _once(body, receive)
        await (answer or self.app)(scope, receive, stricter)

    def _refusal(self, request: Request) -> Response | None:
        host, origin = request.headers.get("host", ""), request.headers.get("origin")
        if self.token is None and not is_loopback(_hostname(host)):
            return PlainTextResponse("This page answers to 127.0.0.1 and localhost only.\n", 403)
        if origin is not None and origin.partition("://")[2] != host:
            return PlainTextResponse("Another site sent this request.\n", 403)
        if re.search("=https?:", request.url.path, re.IGNORECASE):
            return PlainTextResponse("Nothing is fetched from elsewhere.\n", 403)
        return None if self.token is None else self._without_token(request, self.token)

    def _refused_body(self, body: bytes | None) -> Response | None:
        """The refusal of a request that is too long, is no JSON, or names a file that was not uploaded; else None."""
        if body is None:
            return PlainTextResponse("This request is too long.\n", 413)
        try:
            value = json.loads(body or b"null")
        except (ValueError, RecursionError):
            return PlainTextResponse("This request is not JSON.\n", 400)
        if all(_is_below(path, self.folder) for path in _paths(value)):
            return None
        return PlainTextResponse("This file was not uploaded here.\n", 403)

    def _without_token(self, request: Request, token: str) -> Response | None:
        """None for requests with the token, else the answer to a request without."""
        if _equal(request.query_params.get("token"), token):
            answer = RedirectResponse("/", 303)
            answer.set_cookie(COOKIE, token, httponly=True, samesite="lax", secure=request.url.scheme == "https")
            return answer
        if _equal(request.cookies.get(COOKIE), token):
            return None
        return PlainTextResponse("Open the whole address that `protoadapt serve` printed, ?token=… included.\n", 401)


def _hostname(host: str) -> str:
    """The host name of a Host header; empty if it has none."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


async def _body(request: Request) -> bytes | None:
    """The whole body; None if it is too long."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MOST:
            return None
    return bytes(body)


def _once(body: bytes | None, receive: Receive) -> Receive:
    """Replays the body that was read already, then passes on what follows: the end of the connection."""
    parts: list[Message] = [{"type": "http.request", "body": body or b"", "more_body": False}]

    async def again() -> Message:
        return parts.pop() if parts else await receive()

    return again


def _paths(document: Any) -> list[str]:
    """Every `path` in a JSON document: gradio's reference to a file, or to an address that it would fetch."""
    paths, left = [], [document]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            left += value.values()
            paths += [path] if isinstance(path := value.get("path"), str) else []
        elif isinstance(value, list):
            left += value
    return paths


def _is_below(path: str, folder: Path | None) -> bool:
    try:
        return folder is not None and Path(path).is_absolute() and Path(path).resolve().is_relative_to(folder)
    except (OSError, ValueError, RuntimeError):  # a zero byte, a name too long, circular links
        return False


def _equal(text: str | None, token: str) -> bool:
    """Compares in constant time."""
    return text is not None and hmac.compare_digest(text.encode("utf-8", "replace"), token.encode())
