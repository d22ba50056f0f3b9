"""research/results.md from result files: the paper's numbers, ours beside them, reasons for what is not measured."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from paper import tables
from paper.comparators_page import comparators_section, here, read_comparators
from paper.main_plans import CHOSEN, MANY_VIEWS, ONE_VIEW, learned, with_views
from paper.plan import Row, Run, Table, Trial, unique
from paper.quoted import CIPA_SWITCHES, LITERATURE, Quoted
from paper.records_page import records_section
from paper.stored_results import NOT_MEASURED, SHOTS, Results, accuracy
from paper.tables import TABLES
from paper.training_plans import ABLATED, SEEDS
from paper.trends import Curve, trends
from protoadapt.core.errors import count
from protoadapt.core.results import Record, class_interval, paired_difference
from protoadapt.report.tables import markdown

DIFFERENCES = (
    "Differences on the same episodes, in points: ± is over episodes (paired); in brackets is the 95 % half-width over "
    "classes (jackknife), where both records have counts per class."
)


def results_page(folder: Path) -> str:
    results = Results(folder)
    parts = [
        "# Results",
        "Written by `docs/build.py` from the JSON files under `results/`. Each file holds what was run (method, "
        "arguments, protocol, seed, the hashes of weights and features, views, crop), on what (versions, hardware, "
        "commit), the training config, and the right answers per episode; those of the earliest runs have neither "
        "commit nor config. Accuracies are in "
        "percent with 95 % confidence intervals, 10,000 episodes unless stated; networks are ResNet-12. "
        "`python -m paper TABLE --data DIR` makes a table from scratch, or resumes.",
    ]
    shown = [name for name, table in TABLES.items() if name != "glyphs" and any(map(results.file, table.files))]
    parts += records_section(results)
    parts += [section(name, results) for name in shown]
    parts += comparators_section(folder)
    return "\n\n".join(parts) + "\n"


def section(name: str, results: Results, selects: Callable[[str], bool] | None = None) -> str:
    """One table as Markdown; with `selects`, only the rows of selected files, and all their methods."""
    table = TABLES[name]
    sections = {
        "main": _main,
        "hct_ablation": _hct_ablation,
        "cipa_ablation": _cipa_ablation,
        "inference": lambda table, results: _methods(tables.COMPARED, results),
        "imbalance": lambda table, results: _methods(tables.UNEVEN, results),
        "semi": _semi,
        "figure3": lambda table, results: ["![path of the prototypes](../docs/images/adaptation.png)"],
        "cub_whole": lambda table, results: [_by_training(table.rows, results)],
    }
    if selects:
        table = table.only(selects)
        body = [paper_table(table, table.rows, results)] if table.rows else []
        there = [one for one in table.trials if any(results.of(one, shot) for shot in one.shots)]
        body += [f"{one.run.name}, {one.stem}:\n\n{methods_table(one, results)}" for one in there]
    else:
        begun = [row for row in table.rows if any(results.get(row.trial, shot, row.method) for shot in SHOTS)]
        body = sections[name](table, results) if name in sections else [paper_table(table, begun, results)]
        body += [DIFFERENCES, differences_table(table, results)] if table.differences else []
    head = [f"## {table.title}", f"`python -m paper {name}`. {table.about}"]
    return "\n\n".join([*head, *body, *_reasons(table, results)])


def paper_table(table: Table, rows: Iterable[Row], results: Results) -> str:
    """The paper's numbers, ours, the difference; seconds, epochs, seed and hardware of training."""
    header = [*table.columns]
    for shot in SHOTS:
        header += [f"{shot}-shot: paper", "here", "difference"]
    header += ["training", "epochs", "seed", "hardware"]
    cells = [[*row.words, *_accuracy_cells(row, results), *_training_cells(row.trial.run, results)] for row in rows]
    return markdown(header, cells)


def _accuracy_cells(row: Row, results: Results) -> list[str]:
    cells = []
    for shot, paper in zip(SHOTS, row.paper):
        record = results.get(row.trial, shot, row.method)
        cells.append(f"{paper:.2f}" if paper else "")
        cells.append(accuracy(record))
        cells.append(f"{record['accuracy'] - paper:+.2f}" if record and paper else "")
    return cells


def _training_cells(run: Run, results: Results) -> list[str]:
    if not results.training(run.cycles[-1]):
        return [""] * 4
    cycles = [cycle for one in run.cycles if (cycle := results.training(one))]
    seconds = " + ".join(f"{cycle['seconds']:.0f}" for cycle in cycles)
    epochs = " + ".join(str(cycle["config"]["epochs"]) for cycle in cycles)
    seeds = ", ".join(str(cycle["config"]["seed"]) for cycle in cycles)
    return [f"{seconds} s", epochs, seeds, cycles[-1]["hardware"]]


def _reasons(table: Table, results: Results) -> list[str]:
    """A line on missing results, with reasons."""
    missing = unique(part.run for part in table.parts if not all(results.file(file) for file in part.files))
    absent = [f"{run.name} ({run.absent})" for run in missing if run.absent]
    late = [run.name for run in missing if not run.absent]
    lines = [f"Not measured: {', '.join(absent)}."] if absent else []
    lines += [f"Not run yet, or not in full: {', '.join(late)}."] if late else []
    return [" ".join(lines)] if lines else []


def methods_table(trial: Trial, results: Results) -> str:
    """Every method of a trial's files, in their order, with paired differences to the first."""
    by_shot = {shot: {r["label"]: r for r in results.of(trial, shot)} for shot in trial.shots}
    labels = unique([label for records in by_shot.values() for label in records])
    if not labels:
        return f"{NOT_MEASURED.capitalize()}."
    header, rows = ["method"], []
    for shot in trial.shots:
        header += [f"{shot}-shot", f"minus {labels[0]}"]
    for label in labels:
        row = [label]
        for records in by_shot.values():
            one, reference = records.get(label), records.get(labels[0])
            apart = paired_difference(one, reference) if one and reference and one is not reference else None
            row += [accuracy(one), "{:+.2f} ± {:.2f}".format(*apart) if apart else ""]
        rows.append([*row, f"{max(r[label]['episodes'] for r in by_shot.values() if label in r):,}"])
    return markdown([*header, "episodes"], rows)


def differences_table(table: Table, results: Results) -> str:
    """One line per difference: the paper's and ours, at each number of shots."""
    header = ["difference", "network or pictures"]
    for shot in SHOTS:
        header += [f"{shot}-shot: paper", "here"]
    lines = []
    for difference in table.differences:
        cells = [*difference.words]
        for shot, paper in zip(SHOTS, difference.paper):
            one, other = (results.get(trial, shot, spec) for trial, spec in (difference.one, difference.other))
            cells += [f"{paper:+.2f}" if paper is not None else "", paired(one, other)]
        lines.append(cells)
    return markdown(header, lines)


def paired(one: Record | None, other: Record | None) -> str:
    """The difference of two records with its half-widths over episodes and, where known, over classes."""
    if not one or not other:
        return NOT_MEASURED
    over_classes = class_interval(one, other)
    classes = f" (± {over_classes:.2f})" if over_classes is not None else ""
    return "{:+.2f} ± {:.2f}".format(*paired_difference(one, other)) + classes


# Sections that are more than one table.


def _main(table: Table, results: Results) -> list[str]:
    parts = [paper_table(table, table.rows, results)]
    parts.append("### Beside the literature")
    parts.append(
        "Quoted from the paper's Tables 1 to 4 (PT+MAP on CUB: from its text), and beside it the same system here, on "
        "one backbone (ResNet-12), loop and protocol: systems that train are the comparators below (empty: not trained "
        "on this dataset), S2M2_R is that of Table 5's rows with plain prototypes, methods of inference answer on the "
        "features of HCT_R (mini-ImageNet: after two cycles, and on CUB after EPNet's episodes as well). "
        "TEAM is quoted only: there is no public code that an implementation could be checked against."
    )
    trained_here = read_comparators(results.folder)
    for data, quoted in LITERATURE.items():
        rows = []
        for q in quoted:
            ours = _elsewhere(data, q.method, results)
            ours = ours if any(ours) else here(trained_here, data, q.method)
            rows.append(
                [
                    q.setting,
                    q.method,
                    q.backbone,
                    *(_quoted(q, i) for i in (0, 1)),
                    f"quoted, after {q.via}" if q.via else "quoted",
                    *ours,
                ]
            )
        header = ["setting", "method", "backbone", "1-shot", "5-shot", "source", "here: 1-shot", "here: 5-shot"]
        parts += [f"#### {data}", markdown(header, rows)]
    others = {
        f"{words}, {learned(trial.run)}, {count(views, 'view')}, pooling {pooling:g}": with_views(trial, views, pooling)
        for words, (_, trial) in CHOSEN.items()
        for views, pooling in (ONE_VIEW, MANY_VIEWS)
    }
    return [*parts, "## Other methods on the same features and episodes", *_methods(others, results)]


BY_PAPER = {
    "SimpleShot": "simpleshot",
    "transductive fine-tuning": "transductive_fine_tuning",
    "LR+ICI": "lr_ici",
    "LaplacianShot": "laplacian_shot",
    "PT+MAP": "pt_map",
}
"""Methods of the literature that are inference alone, by their names here."""


def _elsewhere(data: str, method: str, results: Results) -> list[str]:
    """Accuracies of a method of inference alone, of S2M2_R or of HCT_R + CIPA; "" where there are none.

    CUB's are of boxes and of whole pictures.
    """
    alone = {words: trial for words, (_, trial) in tables.MAIN.items()}
    trained = {"S2M2_R": (tables.TRAINED_S2M2, "protonet"), "HCT_R + CIPA": (alone, "cipa")}
    trials, spec = trained.get(method, (tables.COMPARED, BY_PAPER.get(method, "")))
    own = {words: trial for words, trial in trials.items() if words.partition(",")[0] == data and spec}
    cells = []
    for shot in SHOTS:
        found = {words: results.get(trial, shot, spec) for words, trial in own.items()}
        crops = {words: f" ({words[len(data) + 2 :]})" if words != data else "" for words in own}
        cells.append("; ".join(accuracy(one) + crops[words] for words, one in found.items() if one))
    return cells


def _quoted(row: Quoted, shot: int) -> str:
    value, ci95 = row.accuracy[shot], row.ci95[shot]
    return f"{value:.{row.digits}f}" + (f" ± {ci95:.{row.digits}f}" if ci95 else "")


def _hct_ablation(table: Table, results: Results) -> list[str]:
    by_data = [(words, [row for row in table.rows if row.words[0] == words]) for words in ABLATED]
    parts = [part for words, rows in by_data for part in (f"### {words}", _by_training(rows, results))]
    return [*parts, *_seeds(results)]


def _by_training(rows: Sequence[Row], results: Results) -> str:
    """One line per network, one column per inference method; the paper's number in brackets."""
    columns = unique([row.words[-1] for row in rows])
    header = ["trained with", "α", *(f"{shot}-shot: {words}" for shot in SHOTS for words in columns)]
    lines = []
    for run in unique([row.trial.run for row in rows]):
        own = {row.words[-1]: row for row in rows if row.trial.run == run}  # by their method of inference
        data, trained, alpha, _ = next(iter(own.values())).words
        cells = [", ".join([trained, *data.split(", ")[1:]]), alpha]
        for i, shot in enumerate(SHOTS):
            for row in map(own.get, columns):
                paper = f" ({row.paper[i]:.2f})" if row and row.paper[i] else ""
                cells.append(accuracy(results.get(row.trial, shot, row.method)) + paper if row else "")
        lines.append([*cells, *_training_cells(run, results)])
    return markdown([*header, "training", "epochs", "seed", "hardware"], lines)


def _seeds(results: Results) -> list[str]:
    """CIFAR-FS: every seed, and mean and standard deviation over them."""
    rows = []
    for trained, inference in unique([(row.words[1], row.words[3]) for row in SEEDS]):
        own = [row for row in SEEDS if (row.words[1], row.words[3]) == (trained, inference)]
        cells = []
        for shot in SHOTS:
            records = [results.get(row.trial, shot, row.method) for row in own]
            values = [r["accuracy"] for r in records if r]
            spread = f" (s = {np.std(values, ddof=1):.2f})" if len(values) > 1 else ""
            cells.append(f"{np.mean(values):.2f}{spread}, {count(len(values), 'seed')}" if values else NOT_MEASURED)
        rows.append([trained, inference, *cells])
    parts = ["### CIFAR-FS, over seeds", _by_training(SEEDS, results), "Mean and standard deviation over seeds:"]
    return [*parts, markdown(["trained with", "inference", "1-shot", "5-shot"], rows)]


def _cipa_ablation(table: Table, results: Results) -> list[str]:
    """One line per switch, one column per network."""
    lines = []
    for letter, (words, spec, paper) in CIPA_SWITCHES.items():
        pairs = [[results.get(trial, shot, spec) for shot in SHOTS] for trial in tables.SWITCHED.values()]
        cells = [" / ".join(f"{one['accuracy']:.2f}" for one in pair if one) or NOT_MEASURED for pair in pairs]
        lines.append([letter, words, " / ".join(f"{one:.2f}" for one in paper if one), *cells])
    return [markdown(["row", "switched on", "paper, mini-ImageNet", *tables.SWITCHED], lines)]


def _methods(trials: Mapping[str, Trial], results: Results) -> list[str]:
    shown = {words: one for words, one in trials.items() if any(results.of(one, shot) for shot in SHOTS)}
    return [part for words, one in shown.items() for part in (f"### {words}", methods_table(one, results))]


def semi_curves(results: Results) -> dict[str, Curve]:
    """Curves by their name in the paper's chart; only complete ones."""
    curves = {
        f"{network} + {words}": {m: results.get(tables.SEMI[network, m], 1, spec) for m in tables.UNLABELLED}
        for network in tables.SEMI_NETWORKS
        for words, spec in tables.SEMI_METHODS.items()
    }
    return {name: curve for name, curve in curves.items() if all(curve.values())}  # type: ignore[misc]


def _semi(table: Table, results: Results) -> list[str]:
    curves = semi_curves(results)
    if len(curves) < len(tables.SEMI_NETWORKS) * len(tables.SEMI_METHODS):
        return [f"{NOT_MEASURED.capitalize()}."]
    rows = [[name, *(f"{curve[m]['accuracy']:.2f}" for m in tables.UNLABELLED)] for name, curve in curves.items()]
    largest = max(r["ci95"] for curve in curves.values() for r in curve.values())
    count = min(r["episodes"] for curve in curves.values() for r in curve.values())
    centred = curves | {name: curves[f"{name}, queries centred too"] for name in ("Base + CIPA", "HCT_R + CIPA")}
    checks = [
        [one.paper, *(f"{'holds' if t.holds else 'does not hold'}: {t.measured}" for t in (one, other))]
        for one, other in zip(trends(curves), trends(centred))
    ]
    return [
        markdown(["M =", *map(str, tables.UNLABELLED)], rows),
        f"{count:,} episodes, intervals up to ± {largest:.2f}.",
        "![semi-supervised accuracy over M](images/semi.png)",
        "As the paper writes it, CIPA centres unlabelled pictures by their mean and does not centre queries, so that "
        "queries and prototypes lie about different points, and it stays below one step of SemiPN. “Queries centred "
        "too” centres each query by the mean of the unlabelled pictures, which uses no other query. With it the lead "
        "of HCT_R + CIPA grows with M, and Base + CIPA starts below Base + SemiPN and passes it, as in the paper's "
        "chart. Whether its authors did so is unknown.",
        "The paper's trends (an M counts as equal within a factor of two), as written and with queries centred too:",
        markdown(["the paper says", "as written", "queries centred too"], checks),
    ]
