"""`UserError`, the one exception for bad input, helpers that write its sentence, and checks of values that anyone may
have written: JSON, headers of files, arguments."""

import difflib
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any


class UserError(ValueError):
    """Bad input, in one sentence: what is wrong, the value, the way out. The command line prints it and exits with 2.

    Examples
    --------
    >>> raise UserError(f"way is {way}: it must be a whole number, 2 or more")
    """


def no_such(kind: str, name: str, known: Iterable[str], of: str = "", also: str = "") -> UserError:
    """An error for a name that is not in a registry; it suggests the nearest name that is, whatever its case.

    of: what the registry belongs to; also: in words, what can be given instead of a name.
    """
    names = sorted(known)
    plain = {each.casefold(): each for each in names}
    near = difflib.get_close_matches(name.casefold(), plain, n=1, cutoff=0.6)
    listed = ", ".join(names) + f", or {also}" * bool(also)
    hint = f"did you mean {plain[near[0]]!r}?" if near else f"choose from {listed}" if names else "there is none"
    return UserError(f"{f'{of} has' if of else 'there is'} no {kind} {name!r}: {hint}")


def whole_number(name: str, value: Any, least: int, most: int | None = None) -> None:
    """Raises UserError unless the argument `name` is a whole number from least to most."""
    if not whole(value, least, 2**63 - 1 if most is None else most):
        rule = f", {least} or more" if most is None else f" from {least} to {most:,}"
        raise UserError(f"{name} is {value!r}: it must be a whole number{rule}")


def count(n: int, one: str, many: str = "") -> str:
    """A number with its noun: 1 → "1 shard", 2000 → "2,000 shards"."""
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def install(extra: str) -> str:
    """The command that installs an extra. The package is installed from its source folder, with pinned versions."""
    return f"pip install -c constraints.txt '.[{extra}]' in protoadapt's source folder"


def first_line(error: Exception) -> str:
    """The first line of an error of another library, for a sentence of ours."""
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]


@contextmanager
def intact(problem: str, way_out: str, kind: type[UserError] = UserError) -> Iterator[None]:
    """Around the reading of a file, which may be damaged, encrypted or lie: any error becomes one sentence.

    A lack of memory is not the file's.
    """
    try:
        yield
    except (UserError, MemoryError):
        raise
    except Exception as error:  # there is none that no library raises for some file
        raise kind(f"{problem} ({first_line(error)}): {way_out}") from error


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
