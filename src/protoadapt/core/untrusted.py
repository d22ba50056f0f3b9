"""What files say of themselves, read without trust: anyone may have written them."""

import json
from numbers import Real
from typing import Any


def finite(value: Any, low: float, high: float) -> bool:
    """A number from low to high: neither NaN, nor a truth value, nor text, nor too long for a float."""
    return isinstance(value, Real) and not isinstance(value, bool) and bool(low <= value <= high)  # type: ignore[operator]


def whole(value: Any, low: int, high: int = 2**63 - 1) -> bool:
    """The same of whole numbers."""
    return type(value) is int and low <= value <= high


def normalisation(mean: Any, std: Any) -> bool:
    """Three numbers each, of pixels in [0, 1], that leave features finite."""
    lists = isinstance(mean, list) and isinstance(std, list) and len(mean) == len(std) == 3
    return lists and all(finite(v, -1e4, 1e4) for v in mean) and all(finite(v, 1e-4, 1e4) for v in std)


def clean_json(text: str | bytes) -> Any:
    """JSON, with "?" for half characters (lone surrogates), which no file or terminal takes. Raises ValueError."""
    return json.loads(json.dumps(json.loads(text), ensure_ascii=False).encode("utf-8", "replace"))


def for_terminal(text: str) -> str:
    """On one line, and without what a terminal would obey."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
