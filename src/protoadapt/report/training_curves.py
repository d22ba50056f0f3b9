"""The section of a report on training runs: losses and validation accuracies by epoch."""

from collections.abc import Iterable, Sequence
from typing import Any

from protoadapt.core.errors import finite
from protoadapt.core.results import CHART_LIMIT
from protoadapt.report.charts import Series, color, lines, ticks
from protoadapt.report.markup import Html, Section, facts, inner, section, tag

RUN = "protoadapt-run/1"
LOSSES = {"ce": "cross-entropy", "rotation": "rotation", "hct": "HCT", "manifold_mixup": "Manifold Mixup"}
ACCURACIES = {
    "val_cipa_5": ("CIPA, 5-shot", "c1"),
    "val_cipa_1": ("CIPA, 1-shot", "c1 dashed"),
    "val_protonet_5": ("ProtoNet, 5-shot", "c0"),
    "val_protonet_1": ("ProtoNet, 1-shot", "c0 dashed"),
    "accuracy": ("base classes", "none dotted"),
}
NO_LOSSES = {"epoch", "step", "lr", "seconds", "images_per_second", "loss", "accuracy"}
_NOTE = (
    "Losses are on base classes. Accuracies of CIPA and ProtoNet are on validation classes, which are not trained on."
)


def training_section(runs: Iterable[dict[str, Any]]) -> Section | None:
    """Two charts and a list of facts per training run (documents of schema `protoadapt-run/1`)."""
    return section("Training", [_run(run) for run in runs], id_="training", note=_NOTE)


def _run(run: dict[str, Any]) -> Html:
    history, config, best = run["history"], run["config"], run["best"]
    score = f"epoch {best['epoch']}, validation score {best['score']:.2f}" if best else None
    known = [("data", config["dataset"]), ("network", config["backbone"]), ("epochs", config["epochs"])]
    known += [("best", score), ("time", f"{run['seconds']:,.0f} s on {run['hardware']}")]
    present = {name for row in history for name in row if name not in NO_LOSSES and not name.startswith("val_")}
    names = [name for name in LOSSES if name in present] + sorted(present - LOSSES.keys())
    losses = {name: (LOSSES.get(name, name), color(i)) for i, name in enumerate(names)}
    charts = [_chart("Training loss", history, losses), _chart("Accuracy, %", history, ACCURACIES, 100.0)]
    return inner(tag("h3", run["run"]), facts(known), tag("div", charts, class_="charts"))


def _chart(
    title: str, history: Sequence[dict[str, Any]], styles: dict[str, tuple[str, str]], high: float | None = None
) -> Html | None:
    """A curve for each key of `styles` that was measured."""
    series = []
    for key, style in styles.items():
        points = [(row["epoch"], row[key]) for row in history if finite(row.get(key), -CHART_LIMIT, CHART_LIMIT)]
        if points:
            series.append(Series(*style, points))
    if not series:
        return None
    high = high or ticks(0, 1.15 * max(0.0, *(y for one in series for _, y in one.points)))[-1]
    return tag("div", tag("h4", title), lines(series, 0.0, high, f"{title} by epoch."))
