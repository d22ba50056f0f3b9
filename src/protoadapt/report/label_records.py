"""labels.json as the page needs it: one record per picture, totals per class."""

import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from protoadapt.core.errors import UserError
from protoadapt.core.untrusted import finite
from protoadapt.report.markup import link, picture

FIRST = 18  # pictures to label next, where the file does not say which
SURE = 0.99  # above it nobody need look


class LabelledPicture(NamedTuple):
    """One picture and the label it was given."""

    file: str
    class_: int  # number of its class, −1 for none
    second: int  # of the second likeliest class
    confidence: float | None
    margin: float | None
    support: bool
    unknown: bool
    no_class: bool  # a person says that it belongs to none of the classes
    origin: str | None  # what the column `guess` of a csv says of a label that no folder holds
    thumb: str | None
    preview: str | None  # the same, larger, where there is one
    link: str | None  # to the file itself


class Total(NamedTuple):
    """How many pictures a class has, whether the page shows them or not."""

    labelled: int
    unknown: int  # of those labelled
    examples: int


def read_records(document: dict[str, Any]) -> tuple[list[LabelledPicture], list[str]]:
    """The pictures, and the names of all classes: those listed, then any other that a picture has as its label."""
    for part in ("classes", "pictures", "skipped"):
        rows = document.get(part, [] if part == "skipped" else None)
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise UserError(f"the field {part!r} is not a list: write labels.json again with protoadapt label")
    rows = document["pictures"]
    labels = [str(p.get("label")) for p in rows if not p.get("unknown") and p.get("label") is not None]
    names = list(dict.fromkeys([str(c.get("name")) for c in document["classes"]] + labels))
    index = {name: k for k, name in enumerate(names)}
    return [_record(p, index, document.get("folder")) for p in rows], names


def _record(p: dict[str, Any], index: dict[str, int], folder: object) -> LabelledPicture:
    label, second = (index.get(str(p[key]), -1) if p.get(key) is not None else -1 for key in ("label", "runner_up"))
    thumb, preview = (picture(p.get(key)) for key in ("thumb", "preview"))
    guess = str(p.get("guess", "(folder)"))
    return LabelledPicture(
        file=str(p.get("file")),
        class_=label,
        second=second,
        confidence=number(p.get("confidence")),
        margin=number(p.get("margin")),
        support=bool(p.get("support")),
        unknown=bool(p.get("unknown")) or label < 0,
        no_class=bool(p.get("no_class")),
        origin=None if guess.startswith("(folder)") else guess,
        thumb=thumb or preview,
        preview=preview or thumb,
        link=link(folder, str(p.get("file"))),
    )


def read_totals(document: dict[str, Any], names: Sequence[str], records: Sequence[LabelledPicture]) -> list[Total]:
    """Totals as the file gives them, since a page on millions of pictures shows a sample; else counted."""
    classes = {str(one.get("name")): one for one in document["classes"]}
    totals = []
    for k, name in enumerate(names):
        members = [r for r in records if r.class_ == k and not r.no_class]
        examples, unknown = sum(r.support for r in members), sum(r.unknown for r in members)
        counted = {"found": len(members) - examples, "unknown": unknown, "support": examples}
        stored = {key: number(classes.get(name, {}).get(key)) for key in counted}
        totals.append(Total(*(n if (s := stored[key]) is None else max(0, int(s)) for key, n in counted.items())))
    return totals


def read_next(document: dict[str, Any], records: Sequence[LabelledPicture]) -> tuple[list[LabelledPicture], list[str]]:
    """The pictures to label next, and why each. Files from before suggestions: the least certain, no reasons."""
    if isinstance(entries := document.get("next"), list):
        of_file = {p.file: p for p in records if not p.support}
        known = [
            one
            for one in entries
            if isinstance(one, dict) and isinstance(one.get("file"), str) and one["file"] in of_file
        ]
        return [of_file[one["file"]] for one in known], [str(one.get("reason") or "") for one in known]
    unsure = [p for p in records if not (p.support or p.unknown) and rank(p) <= SURE]
    first = sorted(unsure, key=lambda p: (rank(p), p.margin or 0, p.file))[:FIRST]
    return first, [""] * len(first)


def rank(p: LabelledPicture) -> float:
    """Confidence as a key to sort by."""
    return -1.0 if p.confidence is None else p.confidence


def number(value: Any) -> float | None:
    """A finite number, or None for anything else."""
    return float(value) if finite(value, -sys.float_info.max, sys.float_info.max) else None
