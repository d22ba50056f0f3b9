"""The page on evaluation results, training runs and the paths of prototypes."""

from collections.abc import Sequence
from typing import Any

from protoadapt.core.results import Record, read_results, right_answers
from protoadapt.report import tables
from protoadapt.report.charts import HIDE, axis, histogram, interval, ticks
from protoadapt.report.markup import Html, facts, inner, page, pairs, section, tag
from protoadapt.report.motion import PATHS, motion, motion_section, paths_of
from protoadapt.report.training_curves import RUN, training_section

ACCURACY = (
    "The dot is the mean over episodes, the line its 95 % confidence interval (hidden where shorter than the dot). "
    "Differences are paired: both methods answer the same episodes. The small bars are a histogram of the accuracies "
    "of single episodes, from 0 to 100 %."
)


def evaluation_page(documents: Sequence[dict[str, Any]]) -> str:
    """One HTML page on parsed JSON: results of `evaluate` and `compare`, runs of `train`, paths of `demo`.

    Results on the same episodes share a table.
    """
    results = [result for document in documents for result in read_results(document)]
    runs, paths = ([one for one in documents if one.get("schema") == kind] for kind in (RUN, PATHS))
    runs = [run for run in runs if isinstance(run.get("history"), list) and run["history"]]
    accuracies = [_table(group) for group in tables.by_episodes(results)]
    wide = any(r.get("classes") for r in results)
    note = ACCURACY + (f" {tables.OVER_CLASSES}: {tables.OVER_CLASSES_NOTE}." if wide else "")
    sections = [
        section("Accuracy", accuracies, id_="accuracy", note=note),
        motion_section([_motion(document) for document in paths]),
        training_section(runs),
        section("Provenance", _provenance([*results, *runs]), id_="provenance"),
    ]
    names = dict.fromkeys(tables.dataset(r["features"]) for r in results)
    title = f"Evaluation: {', '.join(names)}" if results and all(names) else "Evaluation" if results else "Training"
    return page(title, tag("p", _summary(results, runs), class_="lead"), sections=sections, of="results")


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


def _motion(document: dict[str, Any]) -> Html:
    return inner(tag("p", document["protocol"], class_="note"), motion(paths_of(document), document["class_names"]))


def _provenance(documents: Sequence[dict[str, Any]]) -> list[Html]:
    """Hardware, versions and commit, each once."""
    keys = ("hardware", "versions", "commit")
    known = dict.fromkeys(tuple(pairs(d.get(key)) or str(d.get(key) or "") for key in keys) for d in documents)
    return [facts(zip(keys, values)) for values in known]
