"""The page on labels: the board of `serve` without a server, with details that need no script.

Pictures and labels are JSON inside the page, which `report/board/*.js` shows. It cannot name pictures again, so it
records corrections: kept in the browser, and saved as a csv that `label --support` takes.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any

from protoadapt.core.errors import count
from protoadapt.report import markup
from protoadapt.report.charts import bar, color, mark
from protoadapt.report.markup import Html, Section, facts, inner, name_of, pairs, section, table, tag
from protoadapt.report.motion import motion, motion_section, paths_of

LABELS = "protoadapt-labels/1"
NAMES = "dom label_csv marks operations store views kinds grid classes inspector map dialogs keys tools board"
MODULES = tuple(f"board/{name}.js" for name in NAMES.split())
"""The modules that both homes of the board share, each before those that import it."""
BOARD_FILES = ("palette.css", "board/board.css", *MODULES)
_COLUMNS = ("files", "label", "second", "confidence", "margin", "unknown", "given", "origin", "small")
_Record = dict[str, Any]
FIRST = 18  # pictures to label next, where the file does not say which
_SURE = 0.99  # above it nobody need look
_LISTED = 2000  # pictures in the table for browsers without scripts
CONFIDENCE = (
    "Of the pictures labelled with 80 % confidence about 80 % are right, fewer where a class has one odd example or "
    "looks like another. "
)
MARKED = "A picture that resembles none of the classes is marked unknown, whatever its confidence."
UNMARKED = "No picture is marked unknown: for that the method must be bapa, and pictures twenty or more."
OFFLINE = tag(
    "p",
    "Corrections made here are kept in this browser and do not change the other labels: save them and run ",
    tag("code", "protoadapt label"),
    " again with one more ",
    tag("code", "--support corrections.csv"),
    ".",
    class_="note",
)
"""What becomes of corrections made in the page."""


def labels_page(document: dict[str, Any]) -> str:
    """The HTML page of a parsed labels.json: the board, and under Details counts, prototypes, skipped, provenance."""
    names = [one["name"] for one in document["classes"]]
    codes = {name: code for code, name in enumerate(names)}
    records = [_record(one, codes, document.get("folder")) for one in document["pictures"]]
    sections = [
        _counts(document["classes"]),
        motion_section([motion(paths_of(paths), names)] if (paths := document.get("paths")) else []),
        _skipped(document["skipped"]),
        _provenance(document),
    ]
    title = document["title"] or "Labels"
    lead = labels_summary(document)
    note = CONFIDENCE + (UNMARKED if document["threshold"] is None else MARKED)
    lines = [tag("p", lead, class_="lead"), *(tag("p", one) for one in labels_findings(document))]
    lines += [tag("p", note, class_="note"), OFFLINE]
    plain = tag("noscript", _plain(records, names))
    details = tag("div", markup.headed(title, lines, sections), plain, class_="details", id="details")
    # The board's style, and inside the details that of other reports.
    css = "{}{}.details {{\n{}}}\n".format(*map(markup.own_file, ("palette.css", "board/board.css", "page.css")))
    # Modules as one script that runs from a file: their names are unique, so that imports and exports can go.
    code = "".join(map(markup.own_file, (*MODULES, "board/frozen.js")))
    code = re.sub(r"^import [^;]+;\n|^export ", "", code, flags=re.MULTILINE)
    script = f'"use strict";\n{{\n{code}}}\n'
    return markup.document_page(
        title, details, css=css, script=script, data=_board_data(document, records, names, lead), of="labels"
    )


def _record(one: dict[str, Any], codes: Mapping[str, int], folder: str | None) -> _Record:
    """One picture of labels.json as the board shows it, and `support`, `large` and `link`.

    label, second: numbers of classes, −1: no other class. given: what a person said of it. origin: what the column
    `guess` of a csv says of a label that no folder holds.
    """
    small, large = (markup.picture(one.get(key)) for key in ("thumb", "preview"))
    guess = one.get("guess", "(folder)")
    return {
        "files": one["file"],
        "label": codes[one["label"]],
        "second": codes.get(one["runner_up"], -1),
        "confidence": one["confidence"],
        "margin": one["margin"],
        "unknown": int(one["unknown"]),
        "group": one["group"],
        "given": "unknown" if one.get("no_class") else one["label"] if one["support"] else None,
        "origin": None if guess.startswith("(folder)") else guess,
        "small": small or large or "",
        "large": large if small and large != small else None,
        "link": markup.link(folder, one["file"]),
        "support": one["support"],
    }


def _board_data(document: dict[str, Any], records: Sequence[_Record], names: list[str], lead: str) -> dict[str, Any]:
    """What the board shows: one list per value, with an entry per picture."""
    position = {one["files"]: i for i, one in enumerate(records) if not one["support"]}
    queue = {position[one["file"]]: one["reason"] for one in document.get("next", ()) if one["file"] in position}
    least_sure = sorted(position.values(), key=lambda i: (records[i]["margin"], records[i]["files"]))
    if "next" not in document:  # `predict` suggests none: the least certain
        unsure = [i for i in position.values() if not records[i]["unknown"] and records[i]["confidence"] <= _SURE]
        order = sorted(unsure, key=lambda i: (records[i]["confidence"], records[i]["margin"], records[i]["files"]))
        queue = dict.fromkeys(order[:FIRST], "")
    groups: dict[str, list[int]] = {}
    for i, one in enumerate(records):
        groups.setdefault(one["group"] or "", []).append(i)
    groups.pop("", None)
    by_page = any(one["origin"] == "(page)" for one in records)
    return {
        "title": document["title"] or "Labels",
        "made": f"{document['made']} {len(records)}",
        "summary": " ".join([lead, *labels_findings(document, groups=False)]),
        "groups": [*groups.values()],
        "calibrated": document["threshold"] is not None,
        "correction": "(page)" if by_page else "(table)",
        "classes": names,
        **{key: [one[key] for one in records] for key in _COLUMNS},
        "large": {i: one["large"] for i, one in enumerate(records) if one["large"]},
        "links": {i: one["link"] for i, one in enumerate(records) if one["link"]},
        "next": [*queue, *(i for i in least_sure if i not in queue)],
        "suggested": len(queue),
        "reasons": {i: reason for i, reason in queue.items() if reason},
        "map": document.get("map"),
    }


def _plain(records: Sequence[_Record], names: Sequence[str]) -> Html:
    """All labels as tables by class, for a browser that runs no scripts."""
    parts: list[Html] = []
    for k in (*range(len(names)), -1):
        members = [one for one in records[:_LISTED] if (-1 if one["unknown"] else one["label"]) == k]
        heading = tag("h3", mark(k), name_of(names[k]), id=f"class-{k}") if k >= 0 else tag("h3", "Unknown")
        sure = ["example" if one["given"] else f"{one['confidence']:.2f}" for one in members]
        rows = [(name_of(one["files"]), tag("td", words)) for one, words in zip(members, sure)]
        parts += [heading, table(["file", "confidence"], rows, "files")] if rows or k >= 0 else []
    more = tag("p", f"and {len(records) - _LISTED:,} more, all in labels.csv") if len(records) > _LISTED else None
    return inner(tag("h2", "All pictures"), parts, more)


def labels_summary(document: dict[str, Any]) -> str:
    """One sentence on a parsed labels.json, which the report begins with and the terminal ends with."""
    classes = document["classes"]
    none = document.get("no_class") or 0
    skipped = len(document["skipped"])
    labelled, unknown, examples = (sum(one[key] for one in classes) for key in ("found", "unknown", "support"))
    words = f"{count(labelled, 'picture')} labelled" if labelled else "No picture was left to label:"
    words += f" with {count(len(classes), 'class', 'classes')} from " if labelled else " there are only your "
    words += count(none + examples, "example")
    words += f", {none:,} of them of none of the classes." if none else "."
    rest = [f"{unknown:,} may belong to no class"] if unknown else []
    rest += [f"{skipped:,} {'was' if skipped == 1 else 'were'} skipped"] if skipped else []
    return f"{words} {'; '.join(rest)}." if rest else words


def labels_findings(document: dict[str, Any], groups: bool = True) -> list[str]:
    """Sentences on a parsed labels.json: how good the names are, and what would make them better.

    groups: whether those without a name are mentioned, which a board shows anyway.
    """
    classes, words = document["classes"], []
    if estimate := document["estimate"]:
        right, low, high = (round(estimate[key]) for key in ("right", "low", "high"))
        words.append(f"About {right} of 100 names are right ({low}–{high}).")
    for group in document["unnamed"] if groups else ():
        look = "looks" if group["found"] == 1 else "look"
        words.append(
            f"{count(group['found'], 'picture')} {look} like a kind without a name ({group['name']}): name it."
        )
    strays = sum(one["unknown"] for one in classes) - sum(group["found"] for group in document["unnamed"])
    if 2 * strays > sum(one["found"] for one in classes):
        words.append("Most pictures resemble none of the classes: are the examples pictures of the same kind?")
    if alone := sum(one["support"] == 1 for one in classes):
        has = "has" if alone == 1 else "have"
        words.append(
            f"{count(alone, 'class', 'classes')} {has} one example, which is few: two to five make names surer."
        )
    return words


def _counts(classes: Sequence[_Record]) -> Section | None:
    """Class balance: a table whose bars are the chart."""
    shown: dict[str, Callable[[_Record], int]] = {
        "pictures": lambda one: one["support"] + one["found"] - one["unknown"],
        "unknown": itemgetter("unknown"),
        "examples": itemgetter("support"),
    }
    if not any(one["unknown"] for one in classes):
        del shown["unknown"]
    most = max(one["found"] + one["support"] for one in classes) or 1
    rows = []
    for k, one in enumerate(classes):
        parts = {f"{color(k)} solid": one["support"], color(k): one["found"] - one["unknown"]}
        parts[f"{color(k)} faint"] = one["unknown"]
        cells = [bar(*((n / most, style) for style, n in parts.items())), *(f"{of(one):,}" for of in shown.values())]
        first = tag("a", mark(k), name_of(one["name"]), href=f"#class-{k}")
        rows.append((first, [tag("td", cell) for cell in cells]))
    note = "Solid: your examples. Pale: pictures that were given this label"
    note += "; faint: those of them that may belong to no class (unknown)." if "unknown" in shown else "."
    return section("Counts", table(["class", "", *shown], rows, "balance"), id_="counts", note=note)


def _skipped(skipped: Sequence[dict[str, Any]]) -> Section | None:
    lines = [tag("li", name_of(one["file"]), " ", tag("small", one["reason"])) for one in skipped]
    content = tag("ul", lines, class_="plain") if lines else None
    return section("Skipped", content, id_="skipped", note=f"{count(len(skipped), 'file')} could not be used.")


def _provenance(document: dict[str, Any]) -> Section | None:
    model, method, threshold = document["model"], document["method"], document["threshold"]
    data = model.get("dataset")
    known = [
        ("written", document["made"].replace("T", " ")[:16]),
        ("model", inner(model["name"], ", trained on ", data) if data else model["name"]),
        ("weights", model["weights"]),
        ("input", f"{model['size']} pixels"),
        ("method", method["name"]),
        ("settings", pairs(method["settings"])),
        ("confidence", f"temperature {document['temperature']:.3g}"),
        ("unknown", "none" if threshold is None else f"density below {threshold:.3f}, or of a kind without a name"),
        ("versions", pairs(document["versions"])),
    ]
    return section("Provenance", facts(known), id_="provenance")
