"""research/results.md from result files: the paper's numbers, ours beside them, reasons for what is not measured."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from paper.comparators_page import comparators_section, here, read_comparators
from paper.difference_tables import differences_table, small_files_note
from paper.main_plans import MAIN, MANY_VIEWS, ONE_VIEW, with_views
from paper.plan import Row, Run, Table, Trial, unique
from paper.quoted import LITERATURE, Quoted
from paper.records_page import records_section
from paper.stored_results import NOT_MEASURED, SHOTS, Results, accuracy
from paper.tables import COMPARED, SEMI, SEMI_METHODS, SEMI_NETWORKS, TABLES, UNLABELLED, all_methods
from paper.training_plans import ABLATED, SEEDS
from paper.trends import Curve, trends
from protoadapt.core.errors import count
from protoadapt.core.results import paired_difference
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
        "inference": _inference,
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
        body += [table.answer] if table.answer else []
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


# Sections that are more than one table.


def _main(table: Table, results: Results) -> list[str]:
    parts = [paper_table(table, table.rows, results), *small_files_note(results)]
    parts.append("### Beside the literature")
    parts.append(
        "Quoted from the paper's Tables 1 to 4 (PT+MAP on CUB: from its text), and beside it the same system here, on "
        "one backbone (ResNet-12), loop and protocol: systems that train are the comparators below (empty: not trained "
        "on this dataset), methods of inference answer on the features of HCT_R (mini-ImageNet: after two cycles). "
        "TEAM is quoted only: there is no public code that an implementation could be checked against."
    )
    trained_here = read_comparators(results.folder)
    for data, quoted in LITERATURE.items():
        rows = []
        for q in quoted:
            ours = here(trained_here, data, q.method)
            ours = ours if any(ours) else _inference_here(data, q.method, results)
            rows.append([q.setting, q.method, q.backbone, *(_quoted(q, i) for i in (0, 1)), _source(q), *ours])
        for words, (name, trial) in MAIN.items():
            if name == data:
                ours = [accuracy(results.get(with_views(trial), shot, "cipa")) for shot in SHOTS]
                rows.append(["transductive", f"**{_network(trial)} + CIPA, {words}**", "ResNet-12", "", "", "", *ours])
        header = ["setting", "method", "backbone", "1-shot", "5-shot", "source", "here: 1-shot", "here: 5-shot"]
        parts += [f"#### {data}", markdown(header, rows)]
    parts.append("### Other methods on the same features and episodes")
    for words, (_, trial) in MAIN.items():
        for views, pooling in (ONE_VIEW, MANY_VIEWS):
            one = with_views(trial, views, pooling)
            if any(results.of(one, shot) for shot in SHOTS):
                seen = "one view" if views == 1 else f"{views} views"
                parts += [f"{words}, {seen} per picture, pooling {pooling:g}:", methods_table(one, results)]
    return parts


BY_PAPER = {
    "SimpleShot": "simpleshot",
    "transductive fine-tuning": "transductive_fine_tuning",
    "LR+ICI": "lr_ici",
    "LaplacianShot": "laplacian_shot",
    "PT+MAP": "pt_map",
}
"""Methods of the literature that are inference alone, by their names here."""


def _inference_here(data: str, method: str, results: Results) -> list[str]:
    """Accuracies of a method of inference on the features of the dataset's main network; "" where there are none."""
    trial = next((trial for words, trial in COMPARED.items() if words.partition(",")[0] == data), None)
    if trial is None or method not in BY_PAPER:
        return ["", ""]
    found = (results.get(all_methods(trial), shot, BY_PAPER[method]) for shot in SHOTS)
    return [accuracy(record) if record else "" for record in found]


def _network(trial: Trial) -> str:
    if trial.run.start:
        return f"{_network(replace(trial, run=trial.run.start)).rstrip(',')}, then {trial.run.recipe}'s episodes,"
    return "HCT_R, self-distilled," if trial.run.teacher else "HCT_R"


def _quoted(row: Quoted, shot: int) -> str:
    value, ci95 = row.accuracy[shot], row.ci95[shot]
    return f"{value:.{row.digits}f}" + (f" ± {ci95:.{row.digits}f}" if ci95 else "")


def _source(row: Quoted) -> str:
    return f"quoted, after {row.via}" if row.via else "quoted"


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


def _inference(table: Table, results: Results) -> list[str]:
    trials = {words: all_methods(trial) for words, trial in COMPARED.items()}
    shown = {words: one for words, one in trials.items() if any(results.of(one, shot) for shot in SHOTS)}
    return [part for words, one in shown.items() for part in (f"### {words}", methods_table(one, results))]


def semi_curves(results: Results) -> dict[str, Curve]:
    """Curves by their name in the paper's chart; only complete ones."""
    curves = {
        f"{network} + {words}": {m: results.get(SEMI[network, m], 1, spec) for m in UNLABELLED}
        for network in SEMI_NETWORKS
        for words, spec in SEMI_METHODS.items()
    }
    return {name: curve for name, curve in curves.items() if all(curve.values())}  # type: ignore[misc]


def _semi(table: Table, results: Results) -> list[str]:
    curves = semi_curves(results)
    if len(curves) < len(SEMI_NETWORKS) * len(SEMI_METHODS):
        return [f"{NOT_MEASURED.capitalize()}."]
    rows = [[name, *(f"{curve[m]['accuracy']:.2f}" for m in UNLABELLED)] for name, curve in curves.items()]
    largest = max(r["ci95"] for curve in curves.values() for r in curve.values())
    count = min(r["episodes"] for curve in curves.values() for r in curve.values())
    checks = [[t.paper, "holds" if t.holds else "does not hold", t.measured] for t in trends(curves)]
    return [
        markdown(["M =", *map(str, UNLABELLED)], rows),
        f"{count:,} episodes, intervals up to ± {largest:.2f}.",
        "![semi-supervised accuracy over M](images/semi.png)",
        "CIPA centres unlabelled pictures by their mean and does not centre queries, as in the paper. “Queries centred "
        "too” centres each query by the mean of the unlabelled pictures, which uses no other query either.",
        "The paper's trends (an M counts as equal within a factor of two):",
        markdown(["the paper says", "here", "measured"], checks),
    ]
