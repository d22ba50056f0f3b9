"""The page on labels, made for checking them."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from protoadapt.core.errors import count
from protoadapt.report.charts import bar, color, mark
from protoadapt.report.label_records import LabelledPicture, Total, number, rank, read_next, read_records, read_totals
from protoadapt.report.markup import Html, facts, inner, name_of, page, pairs, section, table, tag
from protoadapt.report.motion import motion, motion_section, paths_of

SCHEMA = "protoadapt-labels/1"
LISTED = 100  # pictures per class that are listed without a preview; labels.csv has all
ORDER = "Your examples come first, then the pictures with the highest confidence. Open a picture for its details."
CALIBRATED = (
    "Confidences are calibrated on other classes: of the pictures labelled with 80 % confidence, about 80 % are right, "
    "provided that they belong to one of your classes. A picture that resembles none of the examples is marked "
    "unknown, whatever its confidence."
)
UNCALIBRATED = (
    "Confidences are not calibrated for this model. Use them to sort the pictures, not as probabilities; "
    "`protoadapt calibrate` measures them."
)
Words = Callable[[float | None], str]


def labels_page(document: dict[str, Any]) -> str:
    """The HTML page of a parsed labels.json: what to label next, counts, pictures by class, prototypes, skipped."""
    records, names = read_records(document)
    totals = read_totals(document, names, records)
    say = _percent if document.get("calibrated") else _score
    unknown = _ordered(p for p in records if p.unknown)
    named = [p for p in records if not p.unknown]
    following = read_next(document, records)
    skipped, paths = document.get("skipped") or [], document.get("paths")
    galleries = []
    for k, name in enumerate(names):
        words = _counted(totals[k], sum(p.class_ == k and not p.support for p in records))
        galleries.append(_gallery(name, k, _ordered(p for p in named if p.class_ == k), say, f"class-{k}", words))
    if unknown:
        without_class = sum(p.class_ < 0 for p in unknown)
        number_unknown = sum(total.unknown for total in totals) + without_class
        words = count(number_unknown, "picture")
        words += f", {len(unknown):,} shown here" if len(unknown) < number_unknown else ""
        galleries.insert(0, _gallery("Unknown", -1, unknown, say, "unknown", words))
    sections = [
        ("next", "Label next", _next(*following, say) if following[0] else None),
        ("unknown", "Unknown", Html() if unknown else None),
        ("counts", "Counts", _counts(names, totals)),
        ("classes", "Classes", section("All pictures", _tools(), galleries, id_="classes", note=ORDER)),
        ("motion", "Prototypes", motion_section(motion(paths_of(paths), names)) if paths else None),
        ("skipped", "Skipped", _skipped(skipped) if skipped else None),
        ("provenance", "Provenance", _provenance(document)),
    ]
    trust = CALIBRATED if document.get("calibrated") else UNCALIBRATED
    trust += "" if document.get("calibrated") or unknown else " No picture is marked unknown."
    lines = [tag("p", _summary(records, totals, len(skipped)), class_="lead"), tag("p", trust, class_="note")]
    return page(str(document.get("title") or "Labels"), *lines, sections=sections, of="labels", script=True)


def _counted(total: Total, present: int) -> str:
    words = f"{total.labelled:,} labelled" + (f", {total.unknown:,} of them unknown" if total.unknown else "")
    words += f", {present:,} shown here" if present < total.labelled else ""
    return words + (f" · {count(total.examples, 'example')}" if total.examples else "")


def _ordered(records: Iterable[LabelledPicture]) -> list[LabelledPicture]:
    return sorted(records, key=lambda p: (not p.support, -rank(p), p.file))


def _percent(share: float | None) -> str:
    if share is None:
        return "–"
    return "> 99 %" if 0.995 <= share < 1 else f"{100 * share:.0f} %"


def _score(share: float | None) -> str:
    return "–" if share is None else f"{share:.2f}"


def _summary(records: Sequence[LabelledPicture], totals: Sequence[Total], skipped: int) -> str:
    without_class = sum(p.class_ < 0 for p in records)
    labelled, unknown = (sum(getattr(t, key) for t in totals) + without_class for key in ("labelled", "unknown"))
    words = f"{count(labelled, 'picture')} labelled" if labelled else "No picture was left to label:"
    words += f" with {count(len(totals), 'class', 'classes')} from " if labelled else " there are only your "
    words += f"{count(sum(total.examples for total in totals), 'example')}."
    rest = [f"{unknown:,} may belong to no class"] if unknown else []
    rest += [f"{skipped:,} {'was' if skipped == 1 else 'were'} skipped"] if skipped else []
    return f"{words} {'; '.join(rest)}." if rest else words


def _card(p: LabelledPicture, say: Words, rival: bool = False, why: str = "") -> Html:
    """A picture that opens to show its details. With `rival`, the runner-up stands beside the label; `why`: in the
    details, why its label would help."""
    lines = []
    if p.support:
        lines.append(tag("span", "example", class_="badge"))
    else:
        label = tag("span", f"{p.label}?" if p.unknown else p.label, class_="who") if rival or p.unknown else None
        lines.append(tag("span", label, tag("span", say(p.confidence), class_="share"), class_="line"))
        lines.append(bar((p.confidence or 0, color(p.class_))))
        if rival and p.runner_up:
            rest = None if p.confidence is None or p.margin is None else max(0.0, p.confidence - p.margin)
            other = tag("span", f"or {p.runner_up}", class_="who")
            lines.append(tag("span", other, tag("span", say(rest), class_="share"), class_="line rival"))
            lines.append(bar((rest or 0, color(p.runner_up_class))))
    short = p.file.replace("\\", "/").rsplit("/", 1)[-1]
    source = p.preview if rival or p.unknown else p.thumb
    image = tag("img", src=source, alt=f"Picture {p.file}", loading="lazy", decoding="async", width=128, height=128)
    summary = tag("summary", image, lines, tag("span", name_of(short), class_="file"))
    file = tag("a", name_of(p.file), href=p.link) if p.link else name_of(p.file)
    known: list[tuple[str, object]] = [("file", file), ("label", None if p.unknown else name_of(p.label))]
    if not p.support:
        known += [("confidence", say(p.confidence)), ("runner-up", name_of(p.runner_up) if p.runner_up else None)]
        known += [("margin", _score(p.margin)), ("why", why)]
    return tag("details", summary, facts(known), class_="card example" if p.support else "card")


def _gallery(name: str, class_: int, pictures: Sequence[LabelledPicture], say: Words, id_: str, words: str) -> Html:
    """One class: cards, then a line for each picture without a preview. `words`: how many there are."""
    lines = [_line(p, "?" if p.unknown else "", "example" if p.support else say(p.confidence)) for p in _bare(pictures)]
    rest = tag("li", f"and {len(lines) - LISTED:,} more, all in labels.csv") if len(lines) > LISTED else None
    more = tag("summary", f"{len(lines):,} without a preview"), tag("ul", lines[:LISTED], rest, class_="plain")
    return tag(
        "div",
        tag("h3", mark(class_), name_of(name), " ", tag("small", words)),
        _cards(pictures, say),
        tag("details", *more) if lines else None,
        tag("p", "No pictures.", class_="note") if not pictures else None,
        class_="gallery",
        id=id_,
    )


def _next(pictures: Sequence[LabelledPicture], reasons: Sequence[str], say: Words) -> Html:
    if any(reasons):
        one = count(len(pictures), "picture whose label", "pictures whose labels")
        note = f"The {one} would teach the classifier most, in this order: correct or confirm them in labels.csv."
    else:
        note = f"The {count(len(pictures), 'picture')} with the lowest confidence, lowest first."
    cards = [_card(p, say, True, why) for p, why in zip(pictures, reasons) if p.thumb]
    bare = [(p, why) for p, why in zip(pictures, reasons) if not p.thumb]
    lines = [_line(p, f" or {p.runner_up}" if p.runner_up else " ", why or say(p.confidence)) for p, why in bare]
    grid = tag("div", cards, class_="grid large") if cards else None
    return section("Label these next", grid, tag("ul", lines, class_="plain") if lines else None, id_="next", note=note)


def _cards(pictures: Sequence[LabelledPicture], say: Words) -> Html | None:
    cards = [_card(p, say) for p in pictures if p.thumb]
    return tag("div", cards, class_="grid") if cards else None


def _bare(pictures: Sequence[LabelledPicture]) -> list[LabelledPicture]:
    return [p for p in pictures if not p.thumb]


def _line(p: LabelledPicture, doubt: str, words: str) -> Html:
    """A picture without a preview; its label only where there is a doubt about it."""
    return tag("li", name_of(p.file), [": ", name_of(p.label), doubt] if doubt else None, " ", tag("small", words))


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


def _tools() -> Html:
    """Search and order; the script shows them, without it the page is complete but for these."""
    orders = {"": "highest confidence first", "up": "lowest confidence first"}
    options = [tag("option", words, value=value) for value, words in orders.items()]
    search = tag("input", type="search", id="find", placeholder="file or class", autocomplete="off")
    order = tag("label", "Order ", tag("select", options, id="order"))
    output = tag("output", id="found", for_="find")
    return tag("div", tag("label", "Search ", search), order, output, class_="tools", hidden=True)


def _skipped(skipped: Sequence[dict[str, Any]]) -> Html:
    lines = [tag("li", name_of(s.get("file")), " ", tag("small", s.get("reason"))) for s in skipped]
    note = f"{count(len(skipped), 'file')} could not be used."
    return section("Skipped", tag("ul", lines, class_="plain"), id_="skipped", note=note)


def _provenance(document: dict[str, Any]) -> Html:
    model, method = (part if isinstance(part, dict) else {} for part in (document.get("model"), document.get("method")))
    data, size = model.get("dataset"), model.get("size")
    calibration = "none"
    if document.get("calibrated"):
        calibration = f"temperature {document.get('temperature')}"
        if number(document.get("threshold")) is not None:
            calibration += f", unknown below familiarity {round(document['threshold'], 3)}"
    known = [
        ("written", str(document.get("made") or "").replace("T", " ")[:16]),
        ("model", inner(model.get("name"), ", trained on ", data) if data else model.get("name")),
        ("weights", model.get("weights")),
        ("input", f"{size} pixels" if size else None),
        ("method", method.get("name")),
        ("settings", pairs(method.get("settings"))),
        ("calibration", calibration),
        ("versions", pairs(document.get("versions"))),
    ]
    return section("Provenance", facts(known), id_="provenance")
