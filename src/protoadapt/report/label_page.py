"""The page on labels: the board of `serve` without a server, with details that need no script.

Pictures and labels are JSON inside the page, which `report/board/*.js` shows. It cannot name pictures again, so it
records corrections: kept in the browser, and saved as a csv that `label --support` takes.
"""

import re
from collections.abc import Sequence
from importlib import resources
from typing import Any

from protoadapt.core.errors import count
from protoadapt.report.charts import bar, color, mark
from protoadapt.report.label_records import LabelledPicture, Total, number, read_next, read_records, read_totals
from protoadapt.report.markup import Html, document_page, facts, inner, name_of, pairs, section, table, tag
from protoadapt.report.motion import motion, motion_section, paths_of
from protoadapt.report.picture_pages import check_sections

LABELS = "protoadapt-labels/1"
MODULES = tuple(
    f"board/{name}.js"
    for name in (
        *("dom", "label_csv", "marks", "operations", "store", "views", "grid"),
        *("classes", "inspector", "map", "dialogs", "keys", "board"),
    )
)
"""The modules that both homes of the board share, each before those that import it."""
BOARD_FILES = ("palette.css", "board/board.css", *MODULES)
LISTED = 2000  # pictures in the table for browsers without scripts
CONFIDENCE = (
    "Confidences have one temperature for all models, chosen on collections of different kinds: of the pictures "
    "labelled with 80 % confidence about 80 % are right, fewer where a class has one odd example or looks like another."
)
CALIBRATED = " A picture that resembles none of the examples is marked unknown, whatever its confidence."
UNCALIBRATED = (
    " This model does not find pictures of none of the classes, as it is not calibrated: see protoadapt calibrate."
)


def labels_page(document: dict[str, Any], check: dict[str, Any] | None = None) -> str:
    """The HTML page of a parsed labels.json: the board, and under Details counts, prototypes, skipped, provenance.

    check: a parsed check.json, whose faults are sections of the details then.
    """
    records, names = read_records(document)
    totals = read_totals(document, names, records)
    skipped, paths = document.get("skipped") or [], document.get("paths")
    sections = [
        ("counts", "Counts", _counts(names, totals)),
        ("motion", "Prototypes", motion_section(motion(paths_of(paths), names)) if paths else None),
        *(check_sections(check) if check else ()),
        ("skipped", "Skipped", _skipped(skipped) if skipped else None),
        ("provenance", "Provenance", _provenance(document)),
    ]
    present = [(id_, words, part) for id_, words, part in sections if part is not None]
    title, lead = str(document.get("title") or "Labels"), labels_summary(document)
    note = CONFIDENCE + (CALIBRATED if document.get("calibrated") else UNCALIBRATED) + _threshold(document)
    nav = tag("nav", [tag("a", words, href=f"#{id_}") for id_, words, _ in present], aria_label="Sections")
    lines = [tag("p", lead, class_="lead"), tag("p", note, class_="note"), _offline()]
    details = tag(
        "div",
        tag("header", tag("h1", name_of(title)), lines, nav),
        [part for *_, part in present],
        tag("noscript", _plain(records, names)),
        class_="details",
        id="details",
    )
    data = _board_data(document, records, names, lead)
    script = _bundle((*MODULES, "board/frozen.js"))
    return document_page(title, details, css=_style(), script=script, data=data, of="labels")


def _offline() -> Html:
    """What becomes of corrections made in the page."""
    start = "Corrections made here are kept in this browser and do not change the other labels: save them and run "
    command, option = tag("code", "protoadapt label"), tag("code", "--support corrections.csv")
    return tag("p", start, command, " again with one more ", option, ".", class_="note")


def _style() -> str:
    """The board's style, and inside the details that of other reports."""
    palette, board, others = (_text(name) for name in ("palette.css", "board/board.css", "page.css"))
    return f"{palette}{board}.details {{\n{others}}}\n"


def _bundle(names: Sequence[str]) -> str:
    """Modules as one script that runs from a file: their names are unique, so that imports and exports can go."""
    code = "".join(_text(name) for name in names)
    code = re.sub(r"^import [^;]+;\n", "", code, flags=re.MULTILINE)
    return '"use strict";\n{\n' + re.sub(r"^export ", "", code, flags=re.MULTILINE) + "}\n"


def _text(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text("utf-8")


def _board_data(
    document: dict[str, Any], records: Sequence[LabelledPicture], names: Sequence[str], lead: str
) -> dict[str, Any]:
    """What the board shows: one list per value, with an entry per picture."""
    by_page = any((p.origin or "").startswith("(page") for p in records)
    place, (first, reasons) = {id(p): i for i, p in enumerate(records)}, read_next(document, records)
    queue = [place[id(p)] for p in first]
    asked = [i for i, p in enumerate(records) if not p.support and i not in set(queue)]
    rest = sorted(asked, key=lambda i: (records[i].margin or 0, records[i].file))
    points = document.get("map")
    return {
        "title": str(document.get("title") or "Labels"),
        "made": f"{document.get('made')} {len(records)}",
        "summary": lead,
        "calibrated": bool(document.get("calibrated")),
        "correction": "(page corrected)" if by_page else "(corrected)",
        "classes": list(names),
        "files": [p.file for p in records],
        "label": [p.class_ for p in records],
        "second": [p.second for p in records],
        "confidence": [p.confidence for p in records],
        "margin": [p.margin for p in records],
        "unknown": [int(p.unknown) for p in records],
        "given": [_given(p, names) for p in records],
        "origin": [p.origin for p in records],
        "small": [p.thumb or "" for p in records],
        "large": {i: p.preview for i, p in enumerate(records) if p.preview and p.preview != p.thumb},
        "links": {i: p.link for i, p in enumerate(records) if p.link},
        "next": queue + rest,
        "suggested": len(queue),
        "reasons": {i: reason for i, reason in zip(queue, reasons) if reason},
        "map": points if _is_map(points, len(records)) else None,
    }


def _given(p: LabelledPicture, names: Sequence[str]) -> str | None:
    """What a person said of the picture, if anybody did."""
    return "unknown" if p.no_class else names[p.class_] if p.support and p.class_ >= 0 else None


def _is_map(value: Any, size: int) -> bool:
    """Whether a value is {points: [[x, y] or null per picture], paths: {class: [[x, y], …]}} of finite numbers."""

    def point(one: Any) -> bool:
        return isinstance(one, list) and len(one) == 2 and all(number(x) is not None for x in one)

    points, paths = (value.get("points"), value.get("paths")) if isinstance(value, dict) else (None, None)
    if not isinstance(points, list) or len(points) != size or not isinstance(paths, dict):
        return False
    steps = [one for path in paths.values() for one in (path if isinstance(path, list) and path else [None])]
    return all(one is None or point(one) for one in points) and all(map(point, steps))


def _plain(records: Sequence[LabelledPicture], names: Sequence[str]) -> Html:
    """All labels as tables by class, for a browser that runs no scripts."""
    groups = {k: [p for p in records[:LISTED] if p.class_ == k and not p.unknown] for k in range(len(names))}
    groups[-1] = [p for p in records[:LISTED] if p.unknown]
    parts: list[Html] = []
    for k, members in groups.items():
        rows = [
            (name_of(p.file), tag("td", "example" if p.support or p.no_class else _score(p.confidence)))
            for p in members
        ]
        heading = tag("h3", mark(k), name_of(names[k]), id=f"class-{k}") if k >= 0 else tag("h3", "Unknown")
        parts += [heading, table(["file", "confidence"], rows, "files")] if rows or k >= 0 else []
    more = tag("p", f"and {len(records) - LISTED:,} more, all in labels.csv") if len(records) > LISTED else None
    return inner(tag("h2", "All pictures"), parts, more)


def _score(share: float | None) -> str:
    return "–" if share is None else f"{share:.2f}"


def labels_summary(document: dict[str, Any]) -> str:
    """One sentence on a parsed labels.json, which the report begins with and the terminal ends with."""
    records, names = read_records(document)
    totals, skipped = read_totals(document, names, records), len(document.get("skipped") or [])
    without_class = sum(p.class_ < 0 for p in records)
    labelled, unknown = (sum(getattr(t, key) for t in totals) + without_class for key in ("labelled", "unknown"))
    words = f"{count(labelled, 'picture')} labelled" if labelled else "No picture was left to label:"
    words += f" with {count(len(totals), 'class', 'classes')} from " if labelled else " there are only your "
    none = int(number(document.get("no_class")) or 0)
    words += count(sum(total.examples for total in totals) + none, "example")
    words += f", {none:,} of them of none of the classes." if none else "."
    rest = [f"{unknown:,} may belong to no class"] if unknown else []
    rest += [f"{skipped:,} {'was' if skipped == 1 else 'were'} skipped"] if skipped else []
    return f"{words} {'; '.join(rest)}." if rest else words


def _counts(names: Sequence[str], totals: Sequence[Total]) -> Html:
    """Class balance: a table whose bars are the chart."""
    unsure = any(total.unknown for total in totals)
    most = max((total.labelled + total.examples for total in totals), default=0) or 1
    rows = []
    for k, (name, total) in enumerate(zip(names, totals)):
        solid, faint = (total.examples, f"{color(k)} solid"), (total.unknown, f"{color(k)} faint")
        parts = (solid, (max(0, total.labelled - total.unknown), color(k)), faint)
        numbers = [total.labelled, *([total.unknown] if unsure else []), total.examples]
        link = tag("a", mark(k), name_of(name), href=f"#class-{k}")
        chart = tag("td", bar(*((n / most, style) for n, style in parts)))
        rows.append((link, [chart, *(tag("td", f"{n:,}") for n in numbers)]))
    columns = ["class", "", "labelled", *(["unknown"] if unsure else []), "examples"]
    note = "Solid: your examples. Pale: pictures that were given this label"
    note += "; faint: those of them that may belong to no class (unknown)." if unsure else "."
    return section("Counts", table(columns, rows, "balance"), id_="counts", note=note)


def _skipped(skipped: Sequence[dict[str, Any]]) -> Html:
    lines = [tag("li", name_of(s.get("file")), " ", tag("small", s.get("reason"))) for s in skipped]
    note = f"{count(len(skipped), 'file')} could not be used."
    return section("Skipped", tag("ul", lines, class_="plain"), id_="skipped", note=note)


def _threshold(document: dict[str, Any]) -> str:
    """A sentence on when a picture is unknown."""
    threshold, rate = number(document.get("threshold")), number(document.get("unknown_rate"))
    if not document.get("calibrated") or threshold is None:
        return ""
    if threshold <= -1:
        return " No picture is called unknown, as --unknown was off."
    share = f", which about {round(100 * rate)} % of your classes' own pictures are expected to be" if rate else ""
    return f" Unknown means a familiarity below {threshold:.3f}{share}."


def _provenance(document: dict[str, Any]) -> Html:
    model, method = (part if isinstance(part, dict) else {} for part in (document.get("model"), document.get("method")))
    data, size = model.get("dataset"), model.get("size")
    threshold, temperature = number(document.get("threshold")), number(document.get("temperature"))
    calibration = "none" if threshold is None else f"unknown below familiarity {round(threshold, 3)}"
    known = [
        ("written", str(document.get("made") or "").replace("T", " ")[:16]),
        ("model", inner(model.get("name"), ", trained on ", data) if data else model.get("name")),
        ("weights", model.get("weights")),
        ("input", f"{size} pixels" if size else None),
        ("method", method.get("name")),
        ("settings", pairs(method.get("settings"))),
        ("confidence", None if temperature is None else f"temperature {temperature:g}"),
        ("calibration", calibration),
        ("versions", pairs(document.get("versions"))),
    ]
    return section("Provenance", facts(known), id_="provenance")
