"""labels.json as the page needs it: one record per picture, totals per class."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from protoadapt.core.errors import UserError
from protoadapt.core.untrusted import finite
from protoadapt.report.markup import link, picture


def check_lists(document: Mapping[str, Any], parts: Sequence[str], way_out: str) -> None:
    """Raises UserError unless each of these parts is a list of dicts; `way_out`: what to write again, and how."""
    for part in parts:
        rows = document.get(part)
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise UserError(f"the field {part!r} is not a list: write {way_out}")


def read_records(document: dict[str, Any]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The pictures and the classes, each with values of the right kind.

    A class has its `name` and how many pictures, on the page or not, it was given (`labelled`), how many of them may be
    of none (`unknown`), and `examples`. For a picture see `_record`.
    """
    check_lists(
        {"next": [], **document}, ("classes", "pictures", "skipped", "next"), "labels.json again with protoadapt label"
    )
    fields = {"labelled": "found", "unknown": "unknown", "examples": "support"}
    classes: list[dict[str, Any]] = [
        {key: max(0, int(number(one.get(field)) or 0)) for key, field in fields.items()}
        | {"name": str(one.get("name"))}
        for one in document["classes"]
    ]
    codes = {one["name"]: code for code, one in enumerate(classes)}
    return [_record(one, codes, document.get("folder")) for one in document["pictures"]], classes


def _record(p: dict[str, Any], codes: dict[str, int], folder: object) -> dict[str, Any]:
    """One picture: what the board shows of it, and `support`, `no_class`, `large` and `link`.

    label, second: numbers of classes, −1: none. given: what a person said of it. origin: what the column `guess` of a
    csv says of a label that no folder holds.
    """
    file, (small, large) = str(p.get("file")), (picture(p.get(key)) for key in ("thumb", "preview"))
    label, second = (codes.get(str(p.get(key)), -1) for key in ("label", "runner_up"))
    support, no_class = bool(p.get("support")), bool(p.get("no_class"))
    given = "unknown" if no_class else str(p["label"]) if support and label >= 0 else None
    guess = str(p.get("guess", "(folder)"))
    return {
        "files": file,
        "label": label,
        "second": second,
        "confidence": number(p.get("confidence")),
        "margin": number(p.get("margin")),
        "unknown": int(bool(p.get("unknown")) or label < 0),
        "given": given,
        "origin": None if guess.startswith("(folder)") else guess,
        "small": small or large or "",
        "large": large if small and large != small else None,
        "link": link(folder, file),
        "support": support,
        "no_class": no_class,
    }


def number(value: Any) -> float | None:
    """A finite number, or None for anything else."""
    return float(value) if finite(value, -sys.float_info.max, sys.float_info.max) else None
