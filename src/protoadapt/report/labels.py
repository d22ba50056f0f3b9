"""What pictures were named: the page that a person checks labels with."""

from collections.abc import Iterable, Sequence
from typing import Any

from protoadapt.core.errors import UserError, count
from protoadapt.report.charts import bar, color, mark
from protoadapt.report.labels_json import Shown, Total, number, read_pictures, read_totals
from protoadapt.report.markup import Html, facts, inner, name_of, page, section, tag
from protoadapt.report.motion import motion

SCHEMA = "protoadapt-labels/1"
FIRST = 18  # pictures that are shown for checking before all others
SURE = 0.99  # above it nobody need check
LISTED = 100  # pictures of a class that are named without a preview; labels.csv has all


def labels_page(told: dict[str, Any]) -> str:
    """labels.json → one HTML file: what to check first, all pictures by class, counts, paths, what was left out."""
    pictures, names = read_pictures(told)
    say = _percent if told.get("calibrated") else _score
    unknown = _ordered(p for p in pictures if p.unknown)
    named = [p for p in pictures if not p.unknown]
    unsure = [p for p in named if not p.support and _rank(p) <= SURE]
    unsure = sorted(unsure, key=lambda p: (_rank(p), p.margin or 0, p.file))[:FIRST]
    skipped = told.get("skipped") or []
    totals = read_totals(told, names, pictures)
    galleries = []
    for k, name in enumerate(names):
        words = _said(totals[k], sum(p.kind == k and not p.support for p in pictures))
        galleries.append(_gallery(name, k, _ordered(p for p in named if p.kind == k), say, f"class-{k}", words))
    if unknown:
        stray = sum(p.kind < 0 for p in unknown)
        words = _said(Total(sum(total.unknown for total in totals) + stray, 0, 0), len(unknown))
        galleries.insert(0, _gallery("Unknown", -1, unknown, say, "unknown", words))
    paths = told.get("paths")
    sections: list[tuple[str, str, Html | None]] = [
        ("check", "Check first", _check_first(unsure, say, bool(unknown)) if unsure else None),
        ("counts", "Counts", _counts(names, totals)),
        ("classes", "Classes", section("All pictures", _tools(), galleries, id_="classes", note=ORDER)),
        ("motion", "Movement", _motion(paths, names) if paths else None),
        ("skipped", "Skipped", _skipped(skipped) if skipped else None),
        ("made", "How it was made", _made(told)),
    ]
    present = [(id_, words, part) for id_, words, part in sections if part]
    title = str(told.get("title") or "Labels")
    links = [tag("a", words, href=f"#{id_}") for id_, words, _ in present]
    links[1:1] = [tag("a", "Unknown", href="#unknown")] if unknown else []
    head = tag(
        "header",
        tag("h1", name_of(title)),
        tag("p", _summary(pictures, totals, len(skipped)), class_="lead"),
        tag("p", _trust(told, bool(unknown)), class_="note"),
        tag("nav", links, aria_label="Sections"),
    )
    return page(title, head, *(part for *_, part in present), of="labels", script=True)


ORDER = "Examples first, then the most certain. Open a picture for its file, its runner-up and its margin."


def _said(total: Total, shown: int) -> str:
    words = f"{total.found:,} found" + (f", {total.unknown:,} of them unknown" if total.unknown else "")
    words += f", {shown:,} shown here" if shown < total.found else ""
    return words + (f" · {count(total.examples, 'example')}" if total.examples else "")


def _rank(p: Shown) -> float:
    return -1.0 if p.share is None else p.share


def _ordered(pictures: Iterable[Shown]) -> list[Shown]:
    return sorted(pictures, key=lambda p: (not p.support, -_rank(p), p.file))


def _percent(share: float | None) -> str:
    if share is None:
        return "–"
    return "> 99 %" if 0.995 <= share < 1 else f"{100 * share:.0f} %"


def _score(share: float | None) -> str:
    return "–" if share is None else f"{share:.2f}"


def _summary(pictures: Sequence[Shown], totals: Sequence[Total], skipped: int) -> str:
    stray = sum(p.kind < 0 for p in pictures)
    named, unknown = sum(total.found for total in totals) + stray, sum(total.unknown for total in totals) + stray
    words = f"{count(named, 'picture')} named" if named else "Nothing was left to be named:"
    words += f" as {count(len(totals), 'class', 'classes')} from " if named else " there are only your "
    words += f"{count(sum(total.examples for total in totals), 'example')}."
    rest = [f"{unknown:,} may be of no class"] if unknown else []
    rest += [f"{skipped:,} {'was' if skipped == 1 else 'were'} skipped"] if skipped else []
    return f"{words} {'; '.join(rest)}." if rest else words


def _trust(told: dict[str, Any], unknown: bool) -> str:
    """What a confidence is worth here, in words."""
    if not told.get("calibrated"):
        words = "Uncalibrated: for this model nobody has measured what a confidence is worth. Sort by it; do not read "
        words += "it as a probability."
        return words if unknown else words + " No picture was set aside as unknown."
    words = (
        "Calibrated on other classes: a picture named with 80 % confidence is right in about 80 % of all cases, if it "
    )
    words += "is of one of your classes."
    return words + " A picture that is like none of the examples is called unknown, however sure its name."


def _card(p: Shown, say: Any, rival: bool = False) -> Html:
    """A picture that opens to tell more. With `rival`, what it was nearly called stands beside what it was called."""
    lines = []
    if p.support:
        lines.append(tag("span", "example", class_="badge"))
    else:
        who = f"{p.label}?" if p.unknown else p.label
        shown_who = tag("span", who, class_="who") if rival or p.unknown else None
        lines.append(tag("span", shown_who, tag("span", say(p.share), class_="share"), class_="line"))
        lines.append(bar((p.share or 0, color(p.kind))))
        if rival and p.second:
            rest = None if p.share is None or p.margin is None else max(0.0, p.share - p.margin)
            other = tag("span", f"or {p.second}", class_="who")
            lines.append(tag("span", other, tag("span", say(rest), class_="share"), class_="line rival"))
            lines.append(bar((rest or 0, color(p.second_kind))))
    short = p.file.replace("\\", "/").rsplit("/", 1)[-1]
    closely = p.preview if rival or p.unknown else p.thumb
    shown = tag("img", src=closely, alt=f"Picture {p.file}", loading="lazy", decoding="async", width=128, height=128)
    summary = tag("summary", shown, lines, tag("span", name_of(short), class_="file"))
    file = tag("a", name_of(p.file), href=p.link) if p.link else name_of(p.file)
    known: list[tuple[str, object]] = [("file", file), ("name", None if p.unknown else name_of(p.label))]
    if not p.support:
        known += [("confidence", say(p.share)), ("runner-up", name_of(p.second) if p.second else None)]
        known += [("margin", _score(p.margin))]
    return tag("details", summary, facts(known), class_="card example" if p.support else "card")


def _gallery(name: str, kind: int, pictures: Sequence[Shown], say: Any, id_: str, words: str) -> Html:
    """One class: cards, then in plain lines what has no preview. `words`: how many there are."""
    head = tag("h3", mark(kind), name_of(name), " ", tag("small", words))
    cards = [_card(p, say) for p in pictures if p.thumb]
    plain = [
        tag(
            "li",
            name_of(p.file),
            [": ", name_of(p.label), "?"] if p.unknown else None,
            " ",
            tag("small", "example" if p.support else say(p.share)),
        )
        for p in pictures
        if not p.thumb
    ]
    rest = tag("li", f"and {len(plain) - LISTED:,} more, all in labels.csv") if len(plain) > LISTED else None
    lines = tag("ul", plain[:LISTED], rest, class_="plain")
    more = tag("details", tag("summary", f"{len(plain):,} without a preview"), lines)
    empty = tag("p", "No picture is here.", class_="note") if not pictures else None
    grid = tag("div", cards, class_="grid") if cards else None
    return tag("div", head, grid, more if plain else None, empty, class_="gallery", id=id_)


def _check_first(unsure: Sequence[Shown], say: Any, unknown: bool) -> Html:
    note = f"The {count(len(unsure), 'picture')} whose name is least certain"
    note += ", besides the unknown ones; the least certain first." if unknown else ", the least certain first."
    cards = [_card(p, say, rival=True) if p.thumb else None for p in unsure]
    plain = [
        tag("li", name_of(p.file), ": ", name_of(p.label), f" {say(p.share)}", f" or {p.second}" if p.second else None)
        for p in unsure
        if not p.thumb
    ]
    grid = tag("div", cards, class_="grid large") if any(cards) else None
    return section(
        "Check these first", grid, tag("ul", plain, class_="plain") if plain else None, id_="check", note=note
    )


def _counts(names: Sequence[str], totals: Sequence[Total]) -> Html:
    """Class balance: a table whose bars are the chart."""
    unsure = any(total.unknown for total in totals)
    most = max((total.found + total.examples for total in totals), default=0) or 1
    lines = []
    for k, name in enumerate(names):
        (found, unknown, examples), style = totals[k], color(k)
        parts = ((examples, f"{style} solid"), (max(0, found - unknown), style), (unknown, f"{style} faint"))
        chart = bar(*((number / most, look) for number, look in parts))
        cells = [f"{found:,}", f"{unknown:,}", f"{examples:,}"] if unsure else [f"{found:,}", f"{examples:,}"]
        link = tag("a", mark(k), name_of(name), href=f"#class-{k}")
        row = [tag("th", link, scope="row"), tag("td", chart), [tag("td", cell) for cell in cells]]
        lines.append(tag("tr", row))
    words = ["class", "", "found", *(["unknown"] if unsure else []), "examples"]
    heads = [tag("th", word, scope="col") for word in words]
    table = tag("table", tag("thead", tag("tr", heads)), tag("tbody", lines), class_="balance")
    note = "Solid: your examples. Pale: pictures that were given the name"
    note += "; faint: those of them that may be of no class at all (unknown)." if unsure else "."
    return section("Counts", table, id_="counts", note=note)


def _tools() -> Html:
    """Made visible by the script; without it the page is the same less these."""
    orders = [
        tag("option", words, value=value)
        for value, words in (("", "most certain first"), ("up", "least certain first"))
    ]
    return tag(
        "div",
        tag("label", "Find ", tag("input", type="search", id="find", placeholder="file or class", autocomplete="off")),
        tag("label", "Order ", tag("select", orders, id="order")),
        tag("output", id="found", for_="find"),
        class_="tools",
        hidden=True,
    )


def _motion(paths: dict[str, Any], names: Sequence[str]) -> Html:
    note = (
        "Each mark is a picture, placed so that alike pictures lie together (t-SNE). Stars are class prototypes: they "
    )
    note += "start at your examples and end where the unlabelled pictures have pulled them."
    try:
        chart = motion(paths["rows"], paths["row_label"], paths["support"], paths["steps"], names)
    except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
        raise UserError("the labels' paths cannot be drawn: write labels.json again with protoadapt label") from error
    return section("How the prototypes moved", chart, id_="motion", note=note)


def _skipped(skipped: Sequence[dict[str, Any]]) -> Html:
    lines = [tag("li", name_of(s.get("file")), " ", tag("small", s.get("reason"))) for s in skipped]
    note = f"{count(len(skipped), 'file')} could not be used."
    return section("Skipped", tag("ul", lines, class_="plain"), id_="skipped", note=note)


def _made(told: dict[str, Any]) -> Html:
    def pairs(value: object) -> str:
        return ", ".join(f"{k} {v}" for k, v in value.items()) if isinstance(value, dict) else ""

    model, method = (part if isinstance(part, dict) else {} for part in (told.get("model"), told.get("method")))
    calibration = "none"
    if told.get("calibrated"):
        calibration = f"temperature {told.get('temperature')}"
        if number(told.get("threshold")) is not None:
            calibration += f", unknown below familiarity {round(told['threshold'], 3)}"
    known = [
        ("made", str(told.get("made") or "").replace("T", " ")[:16]),
        (
            "model",
            inner(model.get("name"), ", trained on ", model["dataset"]) if model.get("dataset") else model.get("name"),
        ),
        ("weights", model.get("weights")),
        ("input", f"{model['size']} pixels" if model.get("size") else None),
        ("method", method.get("name")),
        ("settings", pairs(method.get("settings"))),
        ("calibration", calibration),
        ("versions", pairs(told.get("versions"))),
    ]
    return section("How this was made", facts(known), id_="made")
