"""The server of the page: one process with one temporary folder that is removed at the end; no network access."""

import os
import re
import secrets
import signal
import socket
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import nn

from protoadapt.app.guard import Guard, is_loopback
from protoadapt.app.intake import Limits
from protoadapt.core.errors import UserError

HARD = 10
"""An upload of so many times the file limit is cut off; a smaller file above the limit is skipped by itself."""


def serve(
    network: nn.Module,
    metadata: Mapping[str, Any],
    *,
    limits: Limits,
    host: str = "127.0.0.1",
    port: int = 7860,
    token: str | None = None,
    on_ready: Callable[[str], None] = print,
) -> None:
    """Serves the page until Ctrl-C or SIGTERM; `on_ready` is called with the address to open.

    network, metadata: of `vision.networks.load`. port: 0 takes any free one. token: required of every visitor;
    generated where `host` is not this computer only.
    """
    import uvicorn

    token = checked_token(host, token)
    with _listening(host, port) as listener, _temporary_folder() as folder:
        app = Guard(_page(network, metadata, limits, folder), token, folder)
        place = f"[{host}]" if ":" in host else host
        on_ready(f"http://{place}:{listener.getsockname()[1]}/" + (f"?token={token}" if token else ""))
        # An open page keeps a connection, which is cut at the end: uvicorn would print a stack trace for that.
        settings = {"log_level": "critical", "ws": "none", "server_header": False, "timeout_graceful_shutdown": 1}
        uvicorn.Server(uvicorn.Config(app, **settings)).run(sockets=[listener])  # type: ignore[arg-type]


def checked_token(host: str, token: str | None) -> str | None:
    """The token of the user, or a new one where other computers can reach the page, or None."""
    if token is not None and not re.fullmatch(r"[A-Za-z0-9_-]{16,256}", token):
        raise UserError("the token must have 16 to 256 letters, digits, - and _: leave it out to have one generated")
    return token or (None if is_loopback(host) else secrets.token_urlsafe(24))


def _page(network: nn.Module, metadata: Mapping[str, Any], limits: Limits, folder: Path) -> Any:
    # Environment variables for gradio could open the page to others; its files go into our folder.
    for name in [name for name in os.environ if name.startswith("GRADIO_")]:
        del os.environ[name]
    os.environ |= {"GRADIO_ANALYTICS_ENABLED": "False", "GRADIO_TEMP_DIR": str(folder), "HF_HUB_OFFLINE": "1"}
    import gradio
    from fastapi import FastAPI

    from protoadapt.app.page import build, style

    blocks = build(network, metadata, limits, folder)
    blocks.has_launched = True  # never set for a mounted page, and without it gradio serves any file by name
    return gradio.mount_gradio_app(
        FastAPI(openapi_url=None),
        blocks,
        "/",
        max_file_size=HARD * limits.bytes,
        show_error=False,
        footer_links=[],
        run_history=False,
        ssr_mode=False,
        pwa=False,
        mcp_server=False,
        enable_monitoring=False,
        app_kwargs={"openapi_url": None},
        **style(),
    )


@contextmanager
def _listening(host: str, port: int) -> Iterator[socket.socket]:
    """A listening socket, bound before anything is loaded. Port 0 takes any free port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UserError(f"{host} port {port} cannot be used ({reason}): give another --port, or --host") from error
    with listener:
        yield listener


@contextmanager
def _temporary_folder() -> Iterator[Path]:
    """A private folder for all temporary files, removed however the process ends."""

    def end(number: int, frame: Any) -> None:
        raise SystemExit(128 + number)

    # uvicorn handles signals while it runs and raises them again when it has finished: then these are called.
    ends = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {number: signal.signal(number, end) for number in ends}
    kept = tempfile.tempdir
    try:
        with tempfile.TemporaryDirectory(prefix="protoadapt-", ignore_cleanup_errors=True) as folder:
            tempfile.tempdir = folder
            yield Path(folder).resolve()
    finally:
        tempfile.tempdir = kept
        for number, handler in before.items():
            signal.signal(number, handler)
