"""What labels.json says of pictures and classes, as the page needs it."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from protoadapt.core.errors import UserError
from protoadapt.report.markup import link, picture


class Shown(NamedTuple):
    """One picture as the page needs it."""

    file: str
    label: str
    kind: int  # number of its class, −1 for none
    share: float | None  # confidence
    second: str
    second_kind: int
    margin: float | None
    support: bool
    unknown: bool
    thumb: str | None
    preview: str | None  # the same, larger, where there is one
    link: str | None  # to the file itself


class Total(NamedTuple):
    """How many pictures of a class there are, shown here or not."""

    found: int
    unknown: int  # of those found
    examples: int


def read_pictures(told: dict[str, Any]) -> tuple[list[Shown], list[str]]:
    """The pictures and the names of all classes: those listed, then any other that a picture was given."""
    for part in ("classes", "pictures", "skipped"):
        rows = told.get(part, [] if part == "skipped" else None)
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise UserError(f"the labels' {part} are no list: write labels.json again with protoadapt label")
    rows = told["pictures"]
    given = [str(p.get("label")) for p in rows if not p.get("unknown") and p.get("label") is not None]
    names = list(dict.fromkeys([str(c.get("name")) for c in told["classes"]] + given))
    kinds = {name: k for k, name in enumerate(names)}
    shown = []
    for p in rows:
        label, second = (str(p.get(key)) if p.get(key) is not None else "" for key in ("label", "runner_up"))
        unknown = bool(p.get("unknown")) or label not in kinds
        file, kind, share = str(p.get("file")), kinds.get(label, -1), number(p.get("confidence"))
        runner = (second, kinds.get(second, -1), number(p.get("margin")))
        thumb, preview = (picture(p.get(key)) for key in ("thumb", "preview"))
        seen = (thumb or preview, preview or thumb, link(told.get("folder"), file))
        shown.append(Shown(file, label, kind, share, *runner, bool(p.get("support")), unknown, *seen))
    return shown, names


def read_totals(told: dict[str, Any], names: Sequence[str], pictures: Sequence[Shown]) -> list[Total]:
    """As was told of each class, since a page on millions shows a sample; else counted."""
    classes = {str(one.get("name")): one for one in told["classes"]}
    totals = []
    for k, name in enumerate(names):
        members = [p for p in pictures if p.kind == k]
        examples, unknown = sum(p.support for p in members), sum(p.unknown for p in members)
        counted = {"found": len(members) - examples, "unknown": unknown, "support": examples}
        said = {key: number(classes.get(name, {}).get(key)) for key in counted}
        totals.append(Total(*(n if (s := said[key]) is None else max(0, int(s)) for key, n in counted.items())))
    return totals


def number(value: object) -> float | None:
    """A finite number, or None for anything else."""
    try:
        return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else None
    except OverflowError:  # a whole number beyond all floats
        return None
