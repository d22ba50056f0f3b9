"""Checks of values that anyone may have written: JSON, headers of files, arguments."""

import json
import tokenize
import zipfile
import zlib
from numbers import Integral, Real
from typing import Any

BROKEN = (
    *(OSError, ValueError, TypeError, KeyError, AttributeError, EOFError, OverflowError, RecursionError, SyntaxError),
    *(zipfile.BadZipFile, zlib.error, tokenize.TokenError, NotImplementedError, RuntimeError, SystemError),
)
"""What reading a damaged, encrypted or lying file can raise, as JSON, npy or npz."""


def finite(value: Any, low: float, high: float) -> bool:
    """Whether a value is a number from low to high: not NaN, not a bool, not text."""
    return isinstance(value, Real) and not isinstance(value, bool) and bool(low <= value <= high)  # type: ignore[operator]


def whole(value: Any, low: int, high: int = 2**63 - 1) -> bool:
    """Whether a value is a whole number from low to high, of Python or of numpy."""
    return isinstance(value, Integral) and not isinstance(value, bool) and bool(low <= value <= high)  # type: ignore[operator]


def clean_json(text: str | bytes) -> Any:
    """Parsed JSON with "?" for lone surrogates, which no file or terminal accepts. Raises ValueError."""
    return json.loads(json.dumps(json.loads(text), ensure_ascii=False).encode("utf-8", "replace"))


def for_terminal(text: str) -> str:
    """Text on one line without control characters, so that a terminal prints it and obeys none of it."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
