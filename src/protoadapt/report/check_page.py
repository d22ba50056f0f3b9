"""The page on faults of labelled data; its sections are those of a check.json."""

from collections.abc import Mapping, Sequence
from typing import Any

from protoadapt.core.errors import UserError, count
from protoadapt.report.label_records import number
from protoadapt.report.markup import Html, facts, inner, name_of, page, pairs, picture, section, tag

SCHEMA = "protoadapt-check/1"
GROUPS = 100  # of near-duplicates that are shown
MANY = 200  # pictures of a kind that are shown


def check_page(document: dict[str, Any]) -> str:
    """The HTML page of a parsed check.json: suspect labels, near-duplicates, outliers, confused classes."""
    sections = check_sections(document)
    title = f"Check of {document.get('title') or 'pictures'}"
    total = count(int(number(document.get("checked")) or 0), "labelled picture")
    lead = tag("p", f"{total} of {count(len(document['classes']), 'class', 'classes')}.", class_="lead")
    known = [("model", (document.get("model") or {}).get("model")), ("versions", pairs(document.get("versions")))]
    last = ("provenance", "Provenance", section("Provenance", facts(known), id_="provenance"))
    return page(title, lead, sections=[*sections, last], of="check")


def check_sections(document: Mapping[str, Any]) -> list[tuple[str, str, Html | None]]:
    """(id, words of the link, section) of each kind of fault, None where there is none; for other pages, too."""
    for part in ("pictures", "suspects", "duplicates", "outliers", "confused", "classes"):
        rows = document.get(part)
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise UserError(f"the field {part!r} is not a list: write check.json again with protoadapt check")
    thumbs = {str(one.get("file")): picture(one.get("thumb")) for one in document["pictures"]}
    suspects, duplicates, outliers = (document[part] for part in ("suspects", "duplicates", "outliers"))
    return [
        ("suspects", "Suspect labels", _suspects(suspects, thumbs) if suspects else _none("suspects", "suspect label")),
        ("duplicates", "Near-duplicates", _duplicates(duplicates, thumbs) if duplicates else None),
        ("outliers", "Outliers", _outliers(outliers, thumbs) if outliers else None),
        ("confused", "Confused classes", _confused(document["confused"], thumbs) if document["confused"] else None),
    ]


def _none(id_: str, what: str) -> Html:
    return section(f"No {what}", id_=id_)


def _suspects(suspects: Sequence[Mapping[str, Any]], thumbs: Mapping[str, str | None]) -> Html:
    note = "Judged by a classifier that did not see the picture's own label. The least likely labels come first."
    cards = [
        _card(one, thumbs, inner("more likely ", name_of(one.get("likely")), " ", _share(one.get("p_likely"))))
        for one in suspects[:MANY]
    ]
    return section("Suspect labels", _grid(cards, len(suspects)), id_="suspects", note=note)


def _duplicates(groups: Sequence[Mapping[str, Any]], thumbs: Mapping[str, str | None]) -> Html:
    parts = []
    for group in groups[:GROUPS]:
        files = [one for one in group.get("files") or [] if isinstance(one, dict)]
        words = count(len(files), "picture") + (", identical files" if group.get("identical") else "")
        words += ", different labels" if group.get("contradicts") else ""
        parts += [tag("h3", words), _grid([_card(one, thumbs) for one in files[:MANY]], len(files))]
    more = tag("p", f"and {len(groups) - GROUPS:,} more groups, all in check.csv") if len(groups) > GROUPS else None
    note = "Pictures that are almost the same. Groups with different labels come first."
    return section("Near-duplicates", parts, more, id_="duplicates", note=note)


def _outliers(outliers: Sequence[Mapping[str, Any]], thumbs: Mapping[str, str | None]) -> Html:
    cards = [_card(one, thumbs) for one in outliers[:MANY]]
    return section("Outliers", _grid(cards, len(outliers)), id_="outliers", note="Pictures that resemble no other.")


def _confused(pairs: Sequence[Mapping[str, Any]], thumbs: Mapping[str, str | None]) -> Html:
    parts = []
    for one in pairs[:MANY]:
        names = [name_of(name) for name in (one.get("classes") or [])[:2]]
        words = inner(*names[:1], " and ", *names[1:], f": {one.get('pictures')}, {_share(one.get('share'))} of both")
        files = [file for file in one.get("files") or [] if isinstance(file, dict)]
        cards = tag("div", [_card(file, thumbs) for file in files], class_="grid") if files else None
        parts += [tag("h3", words), cards]
    note = "Pairs with pictures of either class that look more like the other; the least typical of them are shown."
    return section("Confused classes", parts, id_="confused", note=note)


def _grid(cards: Sequence[Html], total: int) -> Html:
    more = tag("p", f"and {total - len(cards):,} more, all in check.csv") if total > len(cards) else None
    return inner(tag("div", cards, class_="grid"), more)


def _card(one: Mapping[str, Any], thumbs: Mapping[str, str | None], words: object = None) -> Html:
    file = str(one.get("file"))
    small = thumbs.get(file)
    image = tag("img", src=small, alt=f"Picture {file}", loading="lazy", width=128, height=128) if small else None
    short = file.replace("\\", "/").rsplit("/", 1)[-1]
    label = tag("span", tag("span", one.get("label"), class_="who"), class_="line")
    why = tag("span", words, class_="line rival") if words else None
    summary = tag("summary", image, label, why, tag("span", name_of(short), class_="file"))
    return tag(
        "details", summary, facts([("file", name_of(file)), ("label", name_of(one.get("label")))]), class_="card"
    )


def _share(value: Any) -> str:
    share = number(value)
    return "" if share is None else f"{100 * share:.0f} %"
