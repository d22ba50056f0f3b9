"""Numbers of docs/labeling.md: the table of benchmarks/suggest.py from its JSON, and a chart."""

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from protoadapt.report.tables import markdown

NAMES = {"cub": "CUB", "cars": "Stanford Cars", "dtd": "DTD", "cifar100": "CIFAR-100", "caltech": "Caltech-101"}
TWO = 2  # more labels per class


def suggest_numbers(record: dict[str, Any]) -> str:
    """What `suggest` gains over random choice after two more labels per class, on each dataset."""
    rows = []
    strategies = list(dict.fromkeys(row["strategy"] for row in record["rows"]))
    for dataset, start in dict.fromkeys((row["dataset"], row["start"]) for row in record["rows"]):
        own = {r["strategy"]: r for r in record["rows"] if (r["dataset"], r["start"]) == (dataset, start)}
        name = f"{NAMES.get(dataset, dataset)}, from {'one label per class' if start == 'one' else 'nothing'}"
        best = own["suggest"]
        gain = f"{best['test_gain'][TWO]:+.1f} ± {best['test_gain_ci95'][TWO]:.1f}"
        rows.append([name, *(f"{own[s]['test'][TWO]:.1f}" for s in strategies), gain])
    return "\n\n".join(
        [
            f"`python -m benchmarks.suggest`: accuracy in percent on pictures that could not be asked for, after two "
            f"labels per class more (BAPA as of November 2026); {record['way']} classes, mean over "
            f"{record['splits']} splits, paired difference with its 95 % half-width over splits. Network: Lite0.",
            markdown(["dataset", *strategies, "suggest − random"], rows),
            "![Accuracy against labels per class: suggest, random, margin and k-centre](images/suggest.png)",
        ]
    )


def draw_suggest(record: dict[str, Any], file: Path) -> None:
    """One panel per dataset: accuracy on the test against labels per class, from one label per class."""
    rows = [row for row in record["rows"] if row["start"] == "one"]
    datasets = list(dict.fromkeys(row["dataset"] for row in rows))
    figure = Figure(figsize=(3 * len(datasets), 2.8))
    panels = figure.subplots(1, len(datasets), squeeze=False)[0]
    for panel, dataset in zip(panels, datasets):
        for row in (row for row in rows if row["dataset"] == dataset):
            ours = row["strategy"] == "suggest"
            labels = [1 + more for more in record["labels_per_class"]]
            panel.plot(labels, row["test"], marker="o", ms=3, lw=2 if ours else 1, label=row["strategy"])
        panel.set_title(NAMES.get(dataset, dataset), fontsize=10)
        panel.set_xlabel("labels per class")
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    panels[0].set_ylabel("accuracy, %")
    panels[-1].legend(fontsize=8, frameon=False)
    figure.tight_layout()
    figure.savefig(file, dpi=110, metadata={"Software": None})
