"""The page on evaluation results, training runs, tasks and the paths of prototypes."""

from collections.abc import Hashable, Sequence
from typing import Any

from protoadapt.core.results import Record, read_results, right_answers
from protoadapt.report.captions import caption, dataset, embedding, origin, run_name
from protoadapt.report.charts import HIDE, axis, grouped_bars, histogram, interval, ticks
from protoadapt.report.markup import Html, facts, inner, page, pairs, section, table, tag
from protoadapt.report.motion import PATHS, motion, motion_section, paths_of
from protoadapt.report.tables import OVER_CLASSES, OVER_CLASSES_NOTE, by_episodes, comparison
from protoadapt.report.task import TASK, task_section
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
    """One HTML page on parsed JSON: results of `evaluate` and `compare`, runs of `train`, tasks and paths of `demo`.

    Results on the same episodes share a table; semi-supervised results that differ only in the number of unlabelled
    pictures share a chart.
    """
    results = [result for document in documents for result in read_results(document)]
    runs = [run for run in _having(documents, RUN) if isinstance(run.get("history"), list) and run["history"]]
    tasks, paths = _having(documents, TASK), _having(documents, PATHS)
    semi = [group for group in by_episodes(results, _all_but_unlabeled) if len(_amounts(group)) > 1]
    in_charts = {id(result) for group in semi for result in group}
    tables = [_table(group) for group in by_episodes(r for r in results if id(r) not in in_charts)]
    wide = any(r.get("classes") for r in results)
    note = ACCURACY + (f" {OVER_CLASSES}: {OVER_CLASSES_NOTE}." if wide else "")
    sections = [
        ("accuracy", "Accuracy", section("Accuracy", tables, id_="accuracy", note=note) if tables else None),
        ("semi", "Semi-supervised", _semi(semi) if semi else None),
        ("task", "Task", task_section(tasks) if tasks else None),
        ("motion", "Prototypes", motion_section(*map(_motion, paths)) if paths else None),
        ("training", "Training", training_section(runs) if runs else None),
        ("provenance", "Provenance", _provenance([*results, *runs]) if results or runs else None),
    ]
    names = dict.fromkeys(dataset(r["features"]) for r in results)
    title = f"Evaluation: {', '.join(names)}" if results and all(names) else "Evaluation" if results else "Training"
    lead = tag("p", _summary(results, runs), class_="lead")
    return page(title, lead, sections=sections, of="results")


def _having(documents: Sequence[dict[str, Any]], *schemas: str) -> list[dict[str, Any]]:
    return [document for document in documents if document.get("schema") in schemas]


def _all_but_unlabeled(result: Record) -> Hashable:
    """What semi-supervised results in one chart share: all but the features and the number of unlabelled pictures."""
    p = result["protocol"]
    if p["kind"] != "semi":
        return id(result)
    rest = tuple((key, value) for key, value in p.items() if key != "unlabeled")
    return origin(result["features"]), rest, result["episodes"]


def _amounts(group: Sequence[Record]) -> list[int]:
    return sorted({result["protocol"]["unlabeled"] for result in group})


def _summary(results: Sequence[Record], runs: Sequence[dict[str, Any]]) -> str:
    methods = len({result["label"] for result in results})
    episodes = sum(result["episodes"] for result in results)
    parts = []
    if results:
        words = f"{len(results):,} results of {methods} methods" if len(results) > 1 else f"{results[0]['label']}"
        parts.append(f"{words}, {episodes:,} episodes in total")
    if runs:
        parts.append("1 training run" if len(runs) == 1 else f"{len(runs)} training runs")
    return ("; ".join(parts) or "No results") + "."


def _table(group: Sequence[Record]) -> Html:
    """Methods on the same episodes: the numbers of `tables.comparison` with charts beside them."""
    labels = [result["label"] for result in group]
    wanted = [r.get("reference") for r in group] + ["protonet", labels[0]]
    reference = next(name for name in wanted if name in labels) if len(group) > 1 else None
    header, rows = comparison(group, reference)
    wide = header.index(OVER_CLASSES) if OVER_CLASSES in header else None
    low = min(r["accuracy"] - r["ci95"] for r in group)
    high = max(r["accuracy"] + r["ci95"] for r in group)
    room = max(1.0, 0.08 * (high - low))
    low, high = max(0.0, low - room), min(100.0, high + room)
    body = []
    for result, row in zip(group, rows):
        style = "none" if result["label"] == reference else "c0"
        share = 100 * right_answers(result) / max(result["queries"], 1)
        cells = [
            tag("th", result["label"], scope="row", role="rowheader"),
            tag("td", interval(result["accuracy"], result["ci95"], low, high, style), class_="chart-cell", role="cell"),
            tag("td", row[1], class_="number", role="cell"),
            tag("td", row[2] or "reference", class_="difference", role="cell") if reference else None,
            tag("td", row[wide], class_="over-classes", role="cell") if wide else None,
            tag("td", histogram(share, style), class_="chart-cell spread", role="cell"),
        ]
        body.append(tag("tr", cells, role="row"))
    columns = [("method", None), ("", "chart-cell"), ("accuracy, %", None)]
    columns += [(header[2], None)] if reference else []
    columns += [(OVER_CLASSES, "over-classes")] if wide else []
    columns += [("episodes", "spread")]
    heads = [tag("th", word, scope="col", class_=style, role="columnheader") for word, style in columns]
    feet = [
        tag("td"),
        tag("td", axis(low, high, ticks(low, high)), class_="chart-cell"),
        *[tag("td")] * (len(columns) - 3),
        tag("td", axis(0, 100, (0, 50, 100)), class_="chart-cell spread"),
    ]
    parts = [
        tag("caption", caption(group[0]), tag("br"), tag("small", embedding(group[0]))),
        tag("thead", tag("tr", heads, role="row"), role="rowgroup"),
        tag("tbody", body, role="rowgroup"),
        tag("tfoot", tag("tr", feet), **HIDE),
    ]
    return tag("table", parts, class_="results", role="table")


def _semi(groups: Sequence[Sequence[Record]]) -> Html:
    return section("Semi-supervised", [*map(_by_unlabeled, groups)], id_="semi", note=SEMI)


def _by_unlabeled(group: Sequence[Record]) -> Html:
    """A chart over the number of unlabelled pictures, its numbers, and a table of paired differences for each."""
    amounts, several = _amounts(group), len({run_name(r) for r in group}) > 1
    series: dict[str, dict[int, Record]] = {}
    for r in group:
        name = f"{run_name(r)} + {r['label']}" if several else r["label"]
        series.setdefault(name, {}).setdefault(r["protocol"]["unlabeled"], r)
    values = [[(row[m]["accuracy"], row[m]["ci95"]) if m in row else None for m in amounts] for row in series.values()]
    p, data = group[0]["protocol"], origin(group[0]["features"])
    title = f"{p['way']}-way {p['shot']}-shot, {p['query']} queries per class, {group[0]['episodes']:,} episodes"
    title += f", {p['distractors']} distractor classes among the unlabelled" if p["distractors"] else ""
    cells = [[tag("td", f"{v[0]:.2f} ± {v[1]:.2f}" if v else "") for v in row] for row in values]
    numbers = table(("M", *map(str, amounts)), zip(series, cells))
    each = [_table(same) for same in by_episodes(sorted(group, key=lambda r: r["protocol"]["unlabeled"]))]
    return inner(
        tag("h3", f"{data}: {title}" if data else title),
        grouped_bars([str(m) for m in amounts], list(series), values, 100 / p["way"]),
        tag("div", numbers, class_="scroll", tabindex=0, role="region", aria_label="Accuracy by M"),
        tag("details", tag("summary", "Paired differences for each M"), each),
    )


def _motion(document: dict[str, Any]) -> Html:
    paths, names = paths_of(document), document.get("class_names")
    names = names if isinstance(names, list) and names else [f"class {c}" for c in range(len(paths.steps))]
    return inner(tag("p", document.get("protocol"), class_="note"), motion(paths, [str(name) for name in names]))


def _provenance(documents: Sequence[dict[str, Any]]) -> Html:
    """Hardware, versions and commit, each once."""
    keys = ("hardware", "versions", "commit")
    known = dict.fromkeys(tuple(pairs(d.get(key)) or str(d.get(key) or "") for key in keys) for d in documents)
    parts = [facts(zip(keys, values)) for values in known]
    return section("Provenance", parts, id_="provenance")
