"""The one exception that is the user's to mend: what was wrong, the value, the way out; and words for its sentence."""

import difflib
from collections.abc import Iterable
from numbers import Integral
from typing import Any


class UserError(ValueError):
    """Bad input. The command line prints it as one sentence and exits with code 2."""


def unknown(kind: str, name: str, known: Iterable[str]) -> UserError:
    """An error for a name that is not in a registry, with the nearest name that is."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names)}" if names else "there is none"
    return UserError(f"there is no {kind} {name!r}: {hint}")


def whole_number(name: str, value: Any, least: int, most: int | None = None) -> None:
    """An argument that must be one, Python's or numpy's. Raises UserError."""
    fine = isinstance(value, Integral) and not isinstance(value, bool)
    if not fine or value < least or (most is not None and value > most):
        rule = f", {least} or more" if most is None else f" from {least} to {most:,}"
        raise UserError(f"{name} is {value!r}: it must be a whole number{rule}")


def count(n: int, one: str, many: str = "") -> str:
    """1 → "1 shard", 2,000 → "2,000 shards"."""
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def install(extra: str) -> str:
    """How to get an extra. There is no package index to take it from: it comes from the source folder, pinned there."""
    return f"pip install -c constraints.txt '.[{extra}]' in protoadapt's source folder"
