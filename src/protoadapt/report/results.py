"""What was measured: the page of evaluation and training results."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from protoadapt.core.errors import UserError
from protoadapt.core.records import class_interval, read_results, right_answers
from protoadapt.report.charts import HIDE, axis, color, grouped_bars, histogram, interval, lines, ticks
from protoadapt.report.history import Curve, accuracies, losses
from protoadapt.report.markup import Html, facts, inner, page, section, tag
from protoadapt.report.motion import motion
from protoadapt.report.result_checks import Result, drawable, shown
from protoadapt.report.tables import caption, comparison, dataset, origin

DASHES = {"-": "", "--": "dashed", ":": "dotted"}


def evaluation_page(documents: Sequence[dict[str, Any]]) -> str:
    """Result JSON of evaluate, compare, train and reproduce → one HTML file.

    A document is a result, {"results": […], "reference": …}, a training run, or a picture of prototypes on their way.
    Results on the same episodes share a table; semi-supervised ones that differ in their unlabelled pictures, a chart.
    """
    results = [result for document in documents for result in read_results(document)]
    runs = [d for d in documents if d.get("schema") == "protoadapt-run/1" and isinstance(d.get("history"), list)]
    runs = [run for run in runs if run["history"]]
    pictures = [d for d in documents if d.get("schema") == "protoadapt-picture/1"]
    semi = [group for group in gathered(results, _all_but_unlabeled) if len(_amounts(group)) > 1]
    drawn = {id(result) for group in semi for result in group}
    tables = [_table(group) for group in gathered([r for r in results if id(r) not in drawn], _episodes)]
    note = READ + (OTHERS if any(class_interval(r) is not None for r in results) else "")
    sections: list[tuple[str, str, Html | None]] = [
        ("accuracy", "Accuracy", section("Accuracy", tables, id_="accuracy", note=note) if tables else None),
        ("semi", "Semi-supervised", _semi(semi) if semi else None),
        ("motion", "Movement", _motions(pictures) if pictures else None),
        ("training", "Training", section("Training", [_run(run) for run in runs], id_="training") if runs else None),
        ("made", "How it was made", _made([*results, *runs]) if results or runs else None),
    ]
    present = [(id_, words, part) for id_, words, part in sections if part]
    where = dict.fromkeys(dataset(r["features"]) for r in results)
    title = f"Evaluation: {', '.join(where)}" if results and all(where) else "Evaluation" if results else "Training"
    links = [tag("a", words, href=f"#{id_}") for id_, words, _ in present]
    nav = tag("nav", links, aria_label="Sections")
    head = tag("header", tag("h1", title), tag("p", _summary(results, runs), class_="lead"), nav)
    return page(title, head, *(part for *_, part in present), of="results")


READ = (
    "The dot is the mean over episodes, the line its 95 % confidence interval (where it is not hidden by the dot). "
    "Differences are paired: both methods answered the same episodes. The small bars show how the episodes spread from "
    "0 to 100 %."
)
OTHERS = " Other classes: how far the accuracy, and the difference, would move (95 %) had the classes been others."


def gathered(results: Iterable[Result], key: Callable[[Result], Hashable]) -> list[list[Result]]:
    """Results with the same key together, in order of their first; the same result twice counts once."""
    groups: dict[Hashable, dict[Hashable, Result]] = {}
    for result in results:
        groups.setdefault(key(result), {}).setdefault(
            (result["label"], _episodes(result), *right_answers(result)), result
        )
    return [list(group.values()) for group in groups.values()]


def _episodes(result: Result) -> Hashable:
    """What has to be equal for two results to be on the same episodes."""
    return (_source(result), tuple(result["protocol"].items()), result["seed"], result["episodes"])


def _all_but_unlabeled(result: Result) -> Hashable:
    """What semi-supervised results in one chart share: not the features, not the number of unlabelled pictures."""
    p = result["protocol"]
    if p["kind"] != "semi":
        return id(result)
    rest = tuple((key, value) for key, value in p.items() if key != "unlabeled")
    return origin(result["features"]), rest, result["episodes"]


def _source(result: Result) -> str:
    features = result["features"]
    return str(features.get("hash") or features.get("weights") or "")


def _run_name(result: Result) -> str:
    """What an embedding is called: its training run, else its weights or its features."""
    training = result.get("training")
    run = training.get("run") if isinstance(training, dict) else None
    return str(run or result["features"].get("weights") or result["features"].get("hash") or "features")


def _amounts(group: Sequence[Result]) -> list[int]:
    return sorted({result["protocol"]["unlabeled"] for result in group})


def _summary(results: Sequence[Result], runs: Sequence[dict[str, Any]]) -> str:
    methods = len({result["label"] for result in results})
    episodes = sum(result["episodes"] for result in results)
    parts = []
    if results:
        words = f"{len(results):,} results of {methods} methods" if len(results) > 1 else f"{results[0]['label']}"
        parts.append(f"{words}, {episodes:,} episodes in all")
    if runs:
        parts.append("1 training run" if len(runs) == 1 else f"{len(runs)} training runs")
    return ("; ".join(parts) or "Nothing was measured") + "."


def _table(group: Sequence[Result]) -> Html:
    """Methods on the same episodes: the numbers of `tables.comparison`, with charts beside them."""
    labels = [result["label"] for result in group]
    wanted = [r.get("reference") for r in group] + ["protonet", labels[0]]
    reference = next(name for name in wanted if name in labels) if len(group) > 1 else None
    header, rows = comparison(group, reference)
    others = header.index("other classes") if "other classes" in header else None
    low = min(r["accuracy"] - r["ci95"] for r in group)
    high = max(r["accuracy"] + r["ci95"] for r in group)
    room = max(1.0, 0.08 * (high - low))
    low, high = max(0.0, low - room), min(100.0, high + room)
    lines_ = []
    for result, row in zip(group, rows):
        first = result["label"] == reference
        style = "none" if first else "c0"
        share = 100 * right_answers(result) / max(result["queries"], 1)
        cells = [
            tag("th", result["label"], scope="row", role="rowheader"),
            tag("td", interval(result["accuracy"], result["ci95"], low, high, style), class_="chart-cell", role="cell"),
            tag("td", row[1], class_="number", role="cell"),
            tag("td", row[2] or "reference", class_="difference", role="cell") if reference else None,
            tag("td", row[others], class_="others", role="cell") if others else None,
            tag("td", histogram(share, style), class_="chart-cell spread", role="cell"),
        ]
        lines_.append(tag("tr", cells, role="row"))
    words = [("method", None), ("", "chart-cell"), ("accuracy, %", None), ("episodes", "spread")]
    words[3:3] = [*([(header[2], None)] if reference else []), *([(header[others], "others")] if others else [])]
    heads = [tag("th", word, scope="col", class_=style, role="columnheader") for word, style in words]
    feet = [
        tag("td"),
        tag("td", axis(low, high, ticks(low, high)), class_="chart-cell"),
        *[tag("td")] * (len(words) - 3),
        tag("td", axis(0, 100, (0, 50, 100)), class_="chart-cell spread"),
    ]
    about = inner(caption(group[0]), tag("br"), tag("small", _embedding(group[0])))
    body = [
        tag("thead", tag("tr", heads, role="row"), role="rowgroup"),
        tag("tbody", lines_, role="rowgroup"),
        tag("tfoot", tag("tr", feet), **HIDE),
    ]
    return tag("table", tag("caption", about), body, class_="results", role="table")


USUAL = {"crop": "none", "views": 1, "pooling": 1}


def _embedding(result: Result) -> str:
    features = result["features"]
    parts = [
        *(features.get("backbone"), f"run {_run_name(result)}" if isinstance(result.get("training"), dict) else None),
        f"weights {features['weights']}" if features.get("weights") else None,
        *(f"{key} {value}" for key, usual in USUAL.items() if (value := features.get(key, usual)) not in (usual, None)),
    ]
    return ", ".join(str(part) for part in parts if part)


def _semi(groups: Sequence[Sequence[Result]]) -> Html:
    parts = []
    for group in groups:
        amounts, several = _amounts(group), len({_run_name(r) for r in group}) > 1
        by: dict[str, dict[int, Result]] = {}
        for r in group:
            name = f"{_run_name(r)} + {r['label']}" if several else r["label"]
            by.setdefault(name, {}).setdefault(r["protocol"]["unlabeled"], r)
        values = [[(row[m]["accuracy"], row[m]["ci95"]) if m in row else None for m in amounts] for row in by.values()]
        p, words = group[0]["protocol"], origin(group[0]["features"])
        title = f"{words}: " if words else ""
        title += f"{p['way']}-way {p['shot']}-shot, {p['query']} queries a class, {group[0]['episodes']:,} episodes"
        title += f", {p['distractors']} other classes among the unlabelled" if p["distractors"] else ""
        heads = [tag("th", word, scope="col") for word in ("M", *map(str, amounts))]
        rows = [
            tag("tr", tag("th", name, scope="row"), [tag("td", f"{v[0]:.2f} ± {v[1]:.2f}" if v else "") for v in row])
            for name, row in zip(by, values)
        ]
        table = tag("table", tag("thead", tag("tr", heads)), tag("tbody", rows))
        each = [_table(same) for same in gathered(sorted(group, key=lambda r: r["protocol"]["unlabeled"]), _episodes)]
        parts += [
            tag("h3", title),
            grouped_bars([str(m) for m in amounts], list(by), values, 100 / p["way"]),
            tag("div", table, class_="scroll", tabindex=0, role="region", aria_label="Accuracy by M"),
            tag("details", tag("summary", "Paired differences for each M"), each),
        ]
    note = "Accuracy against the number M of unlabelled pictures a class; queries are not among them. "
    note += "Bars rise from chance."
    return section("Semi-supervised", parts, id_="semi", note=note)


def _motions(pictures: Sequence[dict[str, Any]]) -> Html:
    parts = []
    for told in pictures:
        if not drawable(told):
            raise UserError("a picture of prototypes cannot be drawn: write it again")
        rows, labels = (told[f"support{end}"] + told[f"query{end}"] for end in ("", "_labels"))
        known = [i < len(told["support"]) for i in range(len(rows))]
        steps = np.array(told["paths"], float).swapaxes(0, 1)  # (W, steps, 2)
        given = told.get("class_names")
        names = given if isinstance(given, list) and given else [f"class {c}" for c in range(len(steps))]
        chart = motion(rows, labels, known, steps.tolist(), [str(name) for name in names])
        parts += [tag("p", told.get("protocol"), class_="note"), chart]
    return section("How the prototypes moved", parts, id_="motion")


def _run(run: dict[str, Any]) -> Html:
    """One training run: what it was, its losses and its accuracies."""
    history = [row for row in run["history"] if isinstance(row, dict) and shown(row.get("epoch"))]
    config, best = (run[key] if isinstance(run.get(key), dict) else {} for key in ("config", "best"))
    charts = []
    for words, curves, top in (
        ("Training loss", losses(history), None),
        ("Named rightly, %", accuracies(history), 100.0),
    ):
        curves = [c._replace(points=[p for p in c.points if shown(p[1])]) for c in curves]
        curves = [c for c in curves if c.points]
        if curves:
            high = top or ticks(0, 1.15 * max(0.0, *(y for c in curves for _, y in c.points)))[-1]
            charts.append(
                tag("div", tag("h4", words), lines([_series(c) for c in curves], 0.0, high, f"{words} by epoch."))
            )
    known = facts(
        [
            ("data", config.get("dataset")),
            ("network", config.get("backbone")),
            ("epochs", config.get("epochs")),
            (
                "best",
                f"epoch {best.get('epoch')}, validation score {best['score']:.2f}"
                if shown(best.get("score"))
                else None,
            ),
            ("time", f"{run['seconds']:,.0f} s on {run.get('hardware')}" if shown(run.get("seconds")) else None),
        ]
    )
    return inner(tag("h3", str(run.get("run") or "run")), known, tag("div", charts, class_="charts"))


def _series(curve: Curve) -> tuple[str, str, list[tuple[float, float]]]:
    return curve.words, f"{color(curve.color)} {DASHES[curve.dashes]}".strip(), curve.points


def _made(documents: Sequence[dict[str, Any]]) -> Html:
    """Versions and machines, each said once."""

    def versions(document: dict[str, Any]) -> str:
        told = document.get("versions")
        return ", ".join(f"{k} {v}" for k, v in told.items()) if isinstance(told, dict) else ""

    found = dict.fromkeys((str(d.get("hardware") or ""), versions(d), str(d.get("commit") or "")) for d in documents)
    parts = [facts([("hardware", h), ("versions", v), ("commit", c)]) for h, v, c in found]
    return section("How this was made", parts, id_="made")
