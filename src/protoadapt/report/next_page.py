"""The page of pictures to label next, to look at while the table beside it is filled in."""

from typing import Any

from protoadapt.core.errors import count
from protoadapt.report.markup import Html, facts, name_of, page, picture, section, tag


def next_page(document: dict[str, Any]) -> str:
    """The HTML page of what `suggest` found: each picture with its file, the reason, and the likely classes."""
    cards = [_card(one) for one in document["pictures"]]
    note = "The most useful first. Write their classes into the column label of next.csv; leave empty what you skip."
    sections = [("next", "Label next", section("Label these next", tag("div", cards, class_="grid large"), id_="next"))]
    lead = tag("p", f"{count(len(cards), 'picture')} whose labels would teach the classifier most.", class_="lead")
    lines = [lead, tag("p", note, class_="note")]
    return page(str(document.get("title") or "Pictures"), *lines, sections=sections, of="next")


def _card(one: dict[str, Any]) -> Html:
    small = picture(one.get("preview"))
    image = (
        tag("img", src=small, alt=f"Picture {one['file']}", loading="lazy", width=128, height=128) if small else None
    )
    short = one["file"].replace("\\", "/").rsplit("/", 1)[-1]
    reason = tag("span", one["reason"], class_="reason") if one.get("reason") else None
    summary = tag("summary", image, reason, tag("span", name_of(short), class_="file"))
    known = [("file", name_of(one["file"])), ("likely", one.get("label")), ("or", one.get("runner_up"))]
    return tag("details", summary, facts(known), class_="card")
