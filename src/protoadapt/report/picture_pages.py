"""Pages of single pictures: `check_page` on faults of labelled data, `next_page` on pictures to label next."""

from collections.abc import Mapping, Sequence
from typing import Any

from protoadapt.core.errors import count
from protoadapt.report.markup import Html, facts, inner, name_of, page, pairs, picture, section, tag

CHECK = "protoadapt-check/1"
MANY = 200  # pictures or groups of a kind that are shown
FAULTS = {
    "suspects": (
        "Suspect labels",
        "Judged by a classifier that did not see the picture's own label. The least likely labels come first.",
    ),
    "duplicates": ("Near-duplicates", "Pictures that are almost the same. Groups with different labels come first."),
    "outliers": ("Outliers", "Pictures that resemble no other."),
    "confused": (
        "Confused classes",
        "Pairs with pictures of either class that look more like the other; the least typical of them are shown.",
    ),
}
_KINDS = {"identical": ", identical files", "contradicts": ", different labels"}
"""What is said of near-duplicates."""


def check_page(document: dict[str, Any]) -> str:
    """The HTML page of a parsed check.json: suspect labels, near-duplicates, outliers, confused classes."""
    small = {one["file"]: picture(one.get("thumb")) for one in document["pictures"]}
    sections = []
    for kind, (title, note) in FAULTS.items():
        found = document[kind]
        if kind in ("duplicates", "confused"):
            content = [_group(one, small) for one in found[:MANY]]
        else:
            content = [tag("div", [_labelled(one, small) for one in found[:MANY]], class_="grid")] if found else []
        if len(found) > MANY:
            content.append(tag("p", f"and {len(found) - MANY:,} more, all in check.csv"))
        sections.append(section(title, content, id_=kind, note=note))
    if not document["suspects"]:
        sections[0] = section("No suspect label", (), id_="suspects", words="Suspect labels")
    title = f"Check of {document.get('title') or 'pictures'}"
    total, classes = count(document["checked"], "labelled picture"), count(len(document["classes"]), "class", "classes")
    lead = tag("p", f"{total} of {classes}.", class_="lead")
    known = [("model", document["model"]["model"]), ("versions", pairs(document["versions"]))]
    sections.append(section("Provenance", facts(known), id_="provenance"))
    return page(title, lead, sections=sections, of="check")


def _group(one: Mapping[str, Any], small: Mapping[str, str | None]) -> Html:
    """Near-duplicates of each other, or pictures of two classes that are confused."""
    if "classes" in one:
        first, second = map(name_of, one["classes"])
        words = inner(first, " and ", second, f": {one['pictures']}, {100 * one['share']:.0f} % of both")
    else:
        words = inner(count(len(one["files"]), "picture"), *(text for key, text in _KINDS.items() if one[key]))
    shown = [_labelled(file, small) for file in one["files"][:MANY]]
    return inner(tag("h3", words), tag("div", shown, class_="grid"))


def _labelled(one: Mapping[str, Any], small: Mapping[str, str | None]) -> Html:
    """A picture with its label, and the one that is more likely, where there is one."""
    lines = [tag("span", tag("span", one["label"], class_="who"), class_="line")]
    if "likely" in one:
        likely = inner("more likely ", name_of(one["likely"]), f" {100 * one['p_likely']:.0f} %")
        lines.append(tag("span", likely, class_="line rival"))
    return _card(one["file"], small.get(one["file"]), lines, [("label", name_of(one["label"]))])


def _card(file: str, small: str | None, lines: Sequence[Html], known: Sequence[tuple[str, object]]) -> Html:
    """A picture that opens to show what is known of it."""
    image = tag("img", src=small, alt=f"Picture {file}", loading="lazy", width=128, height=128) if small else None
    short = file.replace("\\", "/").rsplit("/", 1)[-1]
    summary = tag("summary", image, *lines, tag("span", name_of(short), class_="file"))
    return tag("details", summary, facts([("file", name_of(file)), *known]), class_="card")


def next_page(document: dict[str, Any]) -> str:
    """The HTML page of what `suggest` found: each picture with its file, the reason, and the likely classes."""
    cards = []
    for one in document["pictures"]:
        reason = [tag("span", one["reason"], class_="reason")]
        known = [("likely", one.get("label")), ("or", one.get("runner_up"))]
        cards.append(_card(one["file"], picture(one.get("preview")), reason, known))
    note = "The most useful first. Write their classes into the column label of next.csv; leave empty what you skip."
    grid = section("Label these next", tag("div", cards, class_="grid large"), id_="next", words="Label next")
    lead = tag("p", f"{count(len(cards), 'picture')} whose labels would teach the classifier most.", class_="lead")
    lines = [lead, tag("p", note, class_="note")]
    return page(str(document.get("title") or "Pictures"), *lines, sections=[grid], of="next")
