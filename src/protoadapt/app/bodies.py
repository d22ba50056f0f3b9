"""Bodies of requests, which anyone may send: of bounded size, and with text that can be written down."""

from typing import Any

from fastapi import HTTPException, Request
from starlette.datastructures import FormData, UploadFile

from protoadapt.core.errors import UserError
from protoadapt.core.untrusted import clean_json

LONGEST = 16 << 20
"""Bytes of JSON or of a table: labels of 50,000 pictures, and to spare. Either takes many times that in memory."""
STEPS = 1000
"""Steps in one request; each waits for the disk."""
NO_FORM = "the pictures must come as a form (multipart/form-data) with at least one part named files"


async def text_body(request: Request) -> bytes:
    """The body of a request that holds text."""
    content = bytearray()
    async for part in request.stream():
        content += part
        if len(content) > LONGEST:
            raise HTTPException(413, f"this request is larger than {LONGEST >> 20} MB", {"Connection": "close"})
    return bytes(content)


async def steps(request: Request) -> list[dict[str, Any]]:
    """The changes that a page sends, a JSON list of objects."""
    if not request.headers.get("content-type", "").lower().startswith("application/json"):
        raise UserError("changes are sent as application/json, which no form of another site can do")
    try:
        found = clean_json(await text_body(request))
    except (ValueError, RecursionError):
        raise UserError("the changes are not JSON: load the page again") from None
    if not isinstance(found, list) or len(found) > STEPS or not all(isinstance(one, dict) for one in found):
        raise UserError(f"changes are a list of up to {STEPS:,} objects: load the page again")
    return found


def is_form(request: Request) -> bool:
    return request.headers.get("content-type", "").lower().startswith("multipart/form-data")


def files_of(form: FormData) -> list[UploadFile]:
    """The files of a form, if any."""
    return [part for part in form.getlist("files") if isinstance(part, UploadFile)]


def texts(form: FormData, name: str, default: list[Any]) -> list[Any]:
    """A field that is a JSON list with a text or null per file; `default` where the form has no such field."""
    value = form.get(name)
    if value is None:
        return default
    try:
        found = clean_json(value) if isinstance(value, str) else None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list) or len(found) != len(default) or not all(isinstance(t, str | None) for t in found):
        raise UserError(f"{name} must be a JSON list with a text or null for each of the {len(default)} files")
    return found
