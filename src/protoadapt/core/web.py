"""Downloads: checked by a checksum, whole or not at all."""

import hashlib
import http.client
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import TypeVar
from urllib.request import urlopen

from protoadapt.core.errors import UserError
from protoadapt.core.files import written_whole

T = TypeVar("T")
_BLOCK = 1 << 16
TIMEOUT = 60  # seconds without a byte

OnBytes = Callable[[int, int | None], None]
"""on_progress(done, total): bytes on disk and bytes in all, None where the server does not say."""


def fetch(
    url: str, target: Path, checksum: str, on_progress: OnBytes = lambda done, total: None, kind: str = "md5"
) -> None:
    """Download a URL to a file, which is there once it is complete and its checksum, of this kind, is right."""
    digest = hashlib.new(kind, usedforsecurity=False)
    with written_whole(target) as partial:
        try:
            with urlopen(url, timeout=TIMEOUT) as response, partial.open("wb") as file:
                length = response.headers.get("Content-Length")
                while block := response.read(_BLOCK):
                    file.write(block)
                    digest.update(block)
                    on_progress(file.tell(), int(length) if length else None)
            if digest.hexdigest() != checksum:
                raise OSError(f"its {kind} is {digest.hexdigest()} instead of {checksum}")
        except (OSError, http.client.HTTPException) as error:  # urllib's errors are OSErrors
            raise UserError(
                f"{url} cannot be downloaded ({error}): run this again, or download the file by hand"
            ) from error


def within(seconds: float, call: Callable[[], T]) -> T:
    """What a call returns, or TimeoutError after these seconds: looking up an address has no limit of its own."""
    answer: Future[T] = Future()

    def work() -> None:
        try:
            answer.set_result(call())
        except Exception as error:
            answer.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    return answer.result(seconds)
