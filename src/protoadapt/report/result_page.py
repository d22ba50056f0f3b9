"""The page on evaluation results, training runs and the paths of prototypes."""

from collections.abc import Hashable, Sequence
from typing import Any

from protoadapt.core.results import Record, read_results, right_answers
from protoadapt.report import tables
from protoadapt.report.charts import HIDE, axis, grouped_bars, histogram, interval, ticks
from protoadapt.report.markup import Html, facts, inner, page, pairs, section, table, tag
from protoadapt.report.motion import PATHS, motion, motion_section, paths_of
from protoadapt.report.training_curves import RUN, training_section

ACCURACY = (
    "The dot is the mean over episodes, the line its 95 % confidence interval (hidden where shorter than the dot). "
    "Differences are paired: both methods answer the same episodes. The small bars are a histogram of the accuracies "
    "of single episodes, from 0 to 100 %."
)
SEMI = (
    "Accuracy by the number M of unlabelled pictures per class, which do not include the queries. Bars start at chance."
)


def evaluation_page(documents: Sequence[dict[str, Any]]) -> str:
    """One HTML page on parsed JSON: results of `evaluate` and `compare`, runs of `train`, paths of `demo`.

    Results on the same episodes share a table; semi-supervised results that differ only in the number of unlabelled
    pictures share a chart.
    """
    results = [result for document in documents for result in read_results(document)]
    runs, paths = ([one for one in documents if one.get("schema") == kind] for kind in (RUN, PATHS))
    runs = [run for run in runs if isinstance(run.get("history"), list) and run["history"]]
    semi = [group for group in tables.by_episodes(results, _all_but_unlabeled) if len(_amounts(group)) > 1]
    in_charts = {id(result) for group in semi for result in group}
    others = [_table(group) for group in tables.by_episodes(r for r in results if id(r) not in in_charts)]
    wide = any(r.get("classes") for r in results)
    note = ACCURACY + (f" {tables.OVER_CLASSES}: {tables.OVER_CLASSES_NOTE}." if wide else "")
    sections = [
        section("Accuracy", others, id_="accuracy", note=note),
        section("Semi-supervised", [*map(_by_unlabeled, semi)], id_="semi", note=SEMI),
        motion_section([_motion(document) for document in paths]),
        training_section(runs),
        section("Provenance", _provenance([*results, *runs]), id_="provenance"),
    ]
    names = dict.fromkeys(tables.dataset(r["features"]) for r in results)
    title = f"Evaluation: {', '.join(names)}" if results and all(names) else "Evaluation" if results else "Training"
    return page(title, tag("p", _summary(results, runs), class_="lead"), sections=sections, of="results")


def _all_but_unlabeled(result: Record) -> Hashable:
    """What semi-supervised results in one chart share: all but the features and the number of unlabelled pictures."""
    p = result["protocol"]
    if p["kind"] != "semi":
        return id(result)
    rest = tuple((key, value) for key, value in p.items() if key != "unlabeled")
    return tables.origin(result["features"]), rest, result["episodes"]


def _amounts(group: Sequence[Record]) -> list[int]:
    return sorted({result["protocol"]["unlabeled"] for result in group})


def _summary(results: Sequence[Record], runs: Sequence[dict[str, Any]]) -> str:
    labels = [result["label"] for result in results]
    parts = []
    if results:
        words = f"{len(labels):,} results of {len({*labels})} methods" if len(labels) > 1 else labels[0]
        parts.append(f"{words}, {sum(result['episodes'] for result in results):,} episodes in total")
    if runs:
        parts.append("1 training run" if len(runs) == 1 else f"{len(runs)} training runs")
    return ("; ".join(parts) or "No results") + "."


def _table(group: Sequence[Record]) -> Html:
    """Methods on the same episodes: the numbers of `tables.comparison` with charts beside them."""
    labels = [result["label"] for result in group]
    wanted = [r.get("reference") for r in group] + ["protonet", labels[0]]
    reference = next(name for name in wanted if name in labels) if len(group) > 1 else None
    header, rows = tables.comparison(group, reference)
    wide = header.index(tables.OVER_CLASSES) if tables.OVER_CLASSES in header else None
    low = min(r["accuracy"] - r["ci95"] for r in group)
    high = max(r["accuracy"] + r["ci95"] for r in group)
    room = max(1.0, 0.08 * (high - low))
    low, high = max(0.0, low - room), min(100.0, high + room)
    body = []
    for result, row in zip(group, rows):
        style = "none" if result["label"] == reference else "c0"
        share = 100 * right_answers(result) / max(result["queries"], 1)
        cells = [
            ("chart-cell", interval(result["accuracy"], result["ci95"], low, high, style)),
            ("number", row[1]),
            *([("difference", row[2] or "reference")] if reference else []),
            *([("over-classes", row[wide])] if wide else []),
            ("chart-cell spread", histogram(share, style)),
        ]
        first = tag("th", result["label"], scope="row", role="rowheader")
        body.append(tag("tr", first, [tag("td", cell, class_=of, role="cell") for of, cell in cells], role="row"))
    columns = [("method", None), ("", "chart-cell"), ("accuracy, %", None)]
    columns += [(header[2], None)] if reference else []
    columns += [(tables.OVER_CLASSES, "over-classes")] if wide else []
    columns += [("episodes", "spread")]
    heads = [tag("th", word, scope="col", class_=style, role="columnheader") for word, style in columns]
    scale, whole = axis(low, high, ticks(low, high)), axis(0, 100, (0, 50, 100))
    feet = [tag("td"), tag("td", scale, class_="chart-cell"), *[tag("td")] * (len(columns) - 3)]
    feet.append(tag("td", whole, class_="chart-cell spread"))
    parts = [
        tag("caption", tables.caption(group), tag("br"), tag("small", tables.embedding(group[0]))),
        tag("thead", tag("tr", heads, role="row"), role="rowgroup"),
        tag("tbody", body, role="rowgroup"),
        tag("tfoot", tag("tr", feet), **HIDE),
    ]
    return tag("table", parts, class_="results", role="table")


def _by_unlabeled(group: Sequence[Record]) -> Html:
    """A chart over the number of unlabelled pictures, its numbers, and a table of paired differences for each."""
    amounts = _amounts(group)
    several = len({tables.run_name(r) for r in group}) > 1
    series: dict[str, dict[int, Record]] = {}
    for r in group:
        name = f"{tables.run_name(r)} + {r['label']}" if several else r["label"]
        series.setdefault(name, {}).setdefault(r["protocol"]["unlabeled"], r)
    values = [[(row[m]["accuracy"], row[m]["ci95"]) if m in row else None for m in amounts] for row in series.values()]
    p = group[0]["protocol"]
    data = tables.origin(group[0]["features"])
    title = f"{p['way']}-way {p['shot']}-shot, {p['query']} queries per class, {group[0]['episodes']:,} episodes"
    title += f", {p['distractors']} distractor classes among the unlabelled" if p["distractors"] else ""
    cells = [[tag("td", f"{v[0]:.2f} ± {v[1]:.2f}" if v else "") for v in row] for row in values]
    numbers = table(("M", *map(str, amounts)), zip(series, cells))
    each = [_table(same) for same in tables.by_episodes(sorted(group, key=lambda r: r["protocol"]["unlabeled"]))]
    return inner(
        tag("h3", f"{data}: {title}" if data else title),
        grouped_bars([str(m) for m in amounts], list(series), values, 100 / p["way"]),
        tag("div", numbers, class_="scroll", tabindex=0, role="region", aria_label="Accuracy by M"),
        tag("details", tag("summary", "Paired differences for each M"), each),
    )


def _motion(document: dict[str, Any]) -> Html:
    paths = paths_of(document)
    names = document.get("class_names")
    names = names if isinstance(names, list) and names else [f"class {c}" for c in range(len(paths.steps))]
    return inner(tag("p", document.get("protocol"), class_="note"), motion(paths, [str(name) for name in names]))


def _provenance(documents: Sequence[dict[str, Any]]) -> list[Html]:
    """Hardware, versions and commit, each once."""
    keys = ("hardware", "versions", "commit")
    known = dict.fromkeys(tuple(pairs(d.get(key)) or str(d.get(key) or "") for key in keys) for d in documents)
    return [facts(zip(keys, values)) for values in known]
