"""What pictures were named: the page that a person checks labels with."""

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from protoadapt.errors import UserError
from protoadapt.report.charts import bar, color, mark
from protoadapt.report.motion import motion
from protoadapt.report.page import Html, facts, inner, name_of, page, picture, section, tag

SCHEMA = "protoadapt-labels/1"
FIRST = 18  # pictures that are shown for checking before all others
LISTED = 100  # pictures of a class that are named without a preview; labels.csv has all


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


def labels_page(told: dict[str, Any]) -> str:
    """labels.json → one HTML file: what to check first, all pictures by class, counts, paths, what was left out."""
    pictures, names = _pictures(told)
    say = _percent if told.get("calibrated") else _score
    unknown = _ordered(p for p in pictures if p.unknown)
    named = [p for p in pictures if not p.unknown]
    unsure = sorted((p for p in named if not p.support), key=lambda p: (_rank(p), p.margin or 0, p.file))[:FIRST]
    skipped = told.get("skipped") or []
    galleries = []
    for k, name in enumerate(names):
        elsewhere = sum(p.kind == k for p in unknown)
        galleries.append(_gallery(name, k, _ordered(p for p in named if p.kind == k), say, f"class-{k}", elsewhere))
    if unknown:
        galleries.insert(0, _gallery("Unknown", -1, unknown, say, "unknown"))
    paths = told.get("paths")
    sections: list[tuple[str, str, Html | None]] = [
        ("check", "Check first", _check_first(unsure, say) if unsure else None),
        ("counts", "Counts", _counts(names, pictures)),
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
        tag("p", _summary(pictures, names, len(skipped)), class_="lead"),
        tag("p", _trust(told, bool(unknown)), class_="note"),
        tag("nav", links, aria_label="Sections"),
    )
    return page(title, head, *(part for *_, part in present), script=True)


ORDER = "Examples first, then the most certain. Open a picture for its file, its runner-up and its margin."


def _pictures(told: dict[str, Any]) -> tuple[list[Shown], list[str]]:
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
        shown.append(Shown(file, label, kind, share, *runner, bool(p.get("support")), unknown, picture(p.get("thumb"))))
    return shown, names


def number(value: object) -> float | None:
    """A finite number, or None for anything else."""
    try:
        return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else None
    except OverflowError:  # a whole number beyond all floats
        return None


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


def count(n: int, one: str, many: str = "") -> str:
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def _summary(pictures: Sequence[Shown], names: Sequence[str], skipped: int) -> str:
    examples = sum(p.support for p in pictures)
    named = len(pictures) - examples
    unknown = sum(p.unknown for p in pictures)
    words = f"{count(named, 'picture')} named as {count(len(names), 'class', 'classes')} from "
    words += f"{count(examples, 'example')}."
    rest = [f"{unknown:,} may be of no class"] if unknown else []
    rest += [f"{skipped:,} {'was' if skipped == 1 else 'were'} skipped"] if skipped else []
    return f"{words} {'; '.join(rest)}." if rest else words


def _trust(told: dict[str, Any], unknown: bool) -> str:
    """What a confidence is worth here, in words."""
    if not told.get("calibrated"):
        words = "Uncalibrated: for this model nobody has measured what a confidence is worth. Sort by it; do not read "
        words += "it as a probability."
        return words if unknown else words + " No picture was set aside as unknown."
    words = "Calibrated on other classes: of the pictures named with 80 % confidence, about 80 % should be right."
    return words + " A picture that is like none of the examples is called unknown, however sure its name."


def _card(p: Shown, say: Any, rival: bool = False) -> Html:
    """A picture that opens to tell more. With `rival`, what it was nearly called stands beside what it was called."""
    assert p.thumb is not None
    lines = []
    if p.support:
        lines.append(tag("span", "example", class_="badge"))
    else:
        head = (tag("span", p.label, class_="who") if rival else None, tag("span", say(p.share), class_="share"))
        lines += [tag("span", head, class_="line"), bar((p.share or 0, color(p.kind)))]
        if p.unknown:
            lines.append(tag("span", tag("span", f"{p.label}?", class_="who"), class_="line rival"))
        if rival and p.second:
            rest = None if p.share is None or p.margin is None else max(0.0, p.share - p.margin)
            who = tag("span", f"or {p.second}", class_="who")
            lines.append(tag("span", who, tag("span", say(rest), class_="share"), class_="line rival"))
            lines.append(bar((rest or 0, color(p.second_kind))))
    short = p.file.replace("\\", "/").rsplit("/", 1)[-1]
    shown = tag("img", src=p.thumb, alt=f"Picture {p.file}", loading="lazy", decoding="async", width=128, height=128)
    summary = tag("summary", shown, lines, tag("span", name_of(short), class_="file"))
    known: list[tuple[str, object]] = [("file", name_of(p.file)), ("name", None if p.unknown else name_of(p.label))]
    if not p.support:
        known += [("confidence", say(p.share)), ("runner-up", name_of(p.second) if p.second else None)]
        known += [("margin", _score(p.margin))]
    return tag("details", summary, facts(known), class_="card example" if p.support else "card")


def _gallery(name: str, kind: int, pictures: Sequence[Shown], say: Any, id_: str, elsewhere: int = 0) -> Html:
    """One class: cards, then in plain lines what has no preview. `elsewhere`: those shown under Unknown."""
    examples = sum(p.support for p in pictures)
    told = f"{len(pictures) - examples + elsewhere:,} found" + (f", {elsewhere:,} of them unknown" if elsewhere else "")
    told += f" · {count(examples, 'example')}" if examples else ""
    head = tag("h3", mark(kind), name_of(name), " ", tag("small", told))
    cards = [_card(p, say) for p in pictures if p.thumb]
    plain = [
        tag("li", name_of(p.file), " ", tag("small", "example" if p.support else say(p.share)))
        for p in pictures
        if not p.thumb
    ]
    rest = tag("li", f"and {len(plain) - LISTED:,} more, all in labels.csv") if len(plain) > LISTED else None
    lines = tag("ul", plain[:LISTED], rest, class_="plain")
    more = tag("details", tag("summary", f"{len(plain):,} without a preview"), lines)
    empty = tag("p", "No picture is here.", class_="note") if not pictures else None
    grid = tag("div", cards, class_="grid") if cards else None
    return tag("div", head, grid, more if plain else None, empty, class_="gallery", id=id_)


def _check_first(unsure: Sequence[Shown], say: Any) -> Html:
    note = f"The {count(len(unsure), 'picture')} whose name is least certain, the least certain first."
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


def _counts(names: Sequence[str], pictures: Sequence[Shown]) -> Html:
    """Class balance: a table whose bars are the chart."""
    unsure = any(p.unknown for p in pictures)
    most = max([sum(p.kind == k for p in pictures) for k in range(len(names))], default=0) or 1
    lines = []
    for k, name in enumerate(names):
        members = [p for p in pictures if p.kind == k]
        examples, unknown = sum(p.support for p in members), sum(p.unknown for p in members)
        found, style = len(members) - examples, color(k)
        parts = ((examples, f"{style} solid"), (found - unknown, style), (unknown, f"{style} faint"))
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
