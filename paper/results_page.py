"""Result files → docs/results.md: the paper's tables, ours beside them, and what is not measured with the reason."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from paper.networks import read, read_json
from paper.plan import Row, Run, Table, Trial, unique
from paper.quoted import LITERATURE, Quoted
from paper.tables import (
    ABLATED,
    COMPARED,
    MAIN,
    POOLING,
    SEEDS,
    SEEN,
    SEMI,
    SEMI_METHODS,
    SEMI_NETWORKS,
    TABLES,
    UNLABELLED,
    all_methods,
    seen,
)
from paper.trends import Curve, trends
from protoadapt.core.errors import count
from protoadapt.core.methods import method
from protoadapt.core.records import first_episodes, paired_difference
from protoadapt.core.untrusted import finite
from protoadapt.report.tables import markdown

NOT_MEASURED = "not measured"
SHOTS = (1, 5)
EXTREMES = "## Extreme queries\n\nOne query, one class alone, foreign pictures and the like: [BAPA's page](bapa.md)."
Result = dict[str, Any]


@dataclass(frozen=True)
class Results:
    """The JSON files under a folder, each read once."""

    folder: Path
    files: dict[str, Result] = field(default_factory=dict)

    def file(self, name: str) -> Result:
        if name not in self.files:
            self.files[name] = read(self.folder / name)
        return self.files[name]

    def of(self, trial: Trial, shot: int) -> list[Result]:
        return self.file(trial.file(shot)).get("results", [])

    def get(self, trial: Trial, shot: int, spec: str) -> Result | None:
        label = method(spec).label
        return next((r for r in self.of(trial, shot) if r["label"] == label), None)

    def training(self, run: Run) -> Result:
        return self.file(f"{run.name}/train.json")


def results_page(folder: Path) -> str:
    results = Results(folder)
    parts = [
        "# Results",
        "Written by `docs/build.py` from the JSON files under `results/`. Each file holds what was run (method, "
        "arguments, protocol, seed, the hashes of weights and features, views, crop), on what (versions, hardware, "
        "commit), the training config, and the right answers of every episode; those of the earliest runs have neither "
        "commit nor config. Accuracies are in percent with 95 % "
        "confidence intervals, 10,000 episodes unless said; networks are one ResNet-12. "
        "`python -m paper TABLE --data DIR` makes each table from scratch, or goes on where it stopped.",
    ]
    shown = [name for name in TABLES if name != "glyphs"]
    return "\n\n".join([*parts, *(section(name, results) for name in shown), *_classes(results), EXTREMES]) + "\n"


def section(name: str, results: Results, asks: Callable[[str], bool] | None = None) -> str:
    """One table as Markdown; where only some of its files are asked for, their rows and what is in them."""
    table = TABLES[name]
    own = {
        "main": _main,
        "hct_ablation": _hct_ablation,
        "alpha_sweep": _by_data,
        "inference": _inference,
        "semi": _semi,
        "figure3": _figure3,
        "paper_schedule": _paper_schedule,
    }
    if asks:
        table = table.only(asks)
        body = [beside(table, table.rows, results)] if table.rows else []
        there = [one for one in table.trials if any(results.of(one, shot) for shot in one.shots)]
        body += [f"{one.run.name}, {one.stem}:\n\n{same_episodes(one, results)}" for one in there]
    else:
        body = own[name](table, results) if name in own else [beside(table, table.rows, results)]
    told = [f"## {table.title}", f"`python -m paper {name}`. {table.about}", *body]
    return "\n\n".join([*told, *_reasons(table, results)])


def beside(table: Table, rows: Iterable[Row], results: Results) -> str:
    """The paper's numbers, ours, the difference; how long the network was trained, with which seed, on what."""
    header = [*table.columns]
    for shot in SHOTS:
        header += [f"{shot}-shot: paper", "here", "difference"] + ([f"first {table.first}"] if table.first else [])
    header += ["training", "epochs", "seed", "hardware"]
    cells = [[*row.words, *_numbers(row, table.first, results), *_trained(row.trial.run, results)] for row in rows]
    return markdown(header, cells)


def _numbers(row: Row, some: int | None, results: Results) -> list[str]:
    cells = []
    for shot, paper in zip(SHOTS, row.paper):
        found = results.get(row.trial, shot, row.method)
        cells.append(f"{paper:.2f}" if paper else "")
        cells.append(accuracy(found))
        cells.append(f"{found['accuracy'] - paper:+.2f}" if found and paper else "")
        if some:
            cells.append(accuracy(first_episodes(found, some)) if found else "")
    return cells


def accuracy(found: Result | None) -> str:
    return f"{found['accuracy']:.2f} ± {found['ci95']:.2f}" if found else NOT_MEASURED


def _trained(run: Run, results: Results) -> list[str]:
    told = results.training(run)
    if not told:
        return [""] * 4
    cycles = [cycle for one in run.cycles if (cycle := results.training(one))]
    seconds = " + ".join(f"{cycle['seconds']:.0f}" for cycle in cycles)
    epochs = " + ".join(str(cycle["config"]["epochs"]) for cycle in cycles)
    seeds = ", ".join(str(cycle["config"]["seed"]) for cycle in cycles)
    return [f"{seconds} s", epochs, seeds, told["hardware"]]


def _reasons(table: Table, results: Results) -> list[str]:
    """A line on what is missing, and why."""
    missing = unique(part.run for part in table.parts if not all(results.file(file) for file in part.files))
    absent = [f"{run.name} ({run.absent})" for run in missing if run.absent]
    late = [run.name for run in missing if not run.absent]
    told = [f"Not measured: {', '.join(absent)}."] if absent else []
    told += [f"Not run yet, or not in full: {', '.join(late)}."] if late else []
    return [" ".join(told)] if told else []


def same_episodes(trial: Trial, results: Results) -> str:
    """Every method of a trial's files, with paired differences to the first; by label, as they stand in the files."""
    by_shot = {shot: {r["label"]: r for r in results.of(trial, shot)} for shot in trial.shots}
    labels = unique([label for found in by_shot.values() for label in found])
    if not labels:
        return f"{NOT_MEASURED.capitalize()}."
    header, rows = ["method"], []
    for shot in trial.shots:
        header += [f"{shot}-shot", f"minus {labels[0]}"]
    for label in labels:
        row = [label]
        for found in by_shot.values():
            one, reference = found.get(label), found.get(labels[0])
            apart = paired_difference(one, reference) if one and reference and one is not reference else None
            row += [accuracy(one), "{:+.2f} ± {:.2f}".format(*apart) if apart else ""]
        rows.append([*row, f"{max(f[label]['episodes'] for f in by_shot.values() if label in f):,}"])
    return markdown([*header, "episodes"], rows)


# Sections that are more than one table.


def _main(table: Table, results: Results) -> list[str]:
    parts = [beside(table, table.rows, results), *_pooling(results), "### Beside the literature"]
    parts.append(
        "Quoted from the paper's Tables 1 to 4 (PT+MAP on CUB: from its text), except the last rows, from here."
    )
    for data, quoted in LITERATURE.items():
        rows = [[q.setting, q.method, q.backbone, *(_quoted(q, i) for i in (0, 1)), _source(q)] for q in quoted]
        for words, (name, trial) in MAIN.items():
            if name == data:
                for told, pooling in (("", 1.0), (f", pooling {POOLING:g}", POOLING)):
                    ours = [accuracy(results.get(seen(trial, pooling=pooling), shot, "cipa")) for shot in SHOTS]
                    rows.append(
                        ["transductive", f"**{_network(trial)} + CIPA, {words}{told}**", "ResNet-12", *ours, "here"]
                    )
        header = ["setting", "method", "backbone", "1-shot", "5-shot", "source"]
        parts += [f"#### {data}", markdown(header, rows)]
    parts.append("### Other methods on the same features and episodes")
    parts.append("Where no size of files is given, it was not written down; the pictures are the same.")
    for words, (_, trial) in MAIN.items():
        for views, pooling in SEEN:
            one = seen(trial, views, pooling)
            found = [r for shot in SHOTS for r in results.of(one, shot)]
            if found:
                side = found[0]["features"].get("source_side")
                told = f" (from files whose short side is usually {side} pixels)" if side else ""
                how = "one view" if views == 1 else f"{views} views"
                how += f" a picture, pooling {pooling:g}{told}"
                parts += [f"{words}, {how}:", same_episodes(one, results)]
    return parts


def _pooling(results: Results) -> list[str]:
    """How the exponent was chosen: CIPA on validation classes."""
    told = read_json(results.folder / "pooling.json")
    try:
        found = {(r["network"], r["pooling"], r["shot"]): r["accuracy"] for r in told["rows"] if r["method"] == "cipa"}
        exponents, networks = unique([p for _, p, _ in found]), unique([network for network, _, _ in found])
        header = ["network", *(f"{shot}-shot: {p:g}" for shot in SHOTS for p in exponents)]
        rows = [[name, *(f"{found[name, p, shot]:.2f}" for shot in SHOTS for p in exponents)] for name in networks]
        protocol = told["protocol"]
    except (KeyError, TypeError, ValueError):  # not there, or only a part of it
        rows = []
    if not rows:
        return []
    about = f"`python benchmarks/pooling.py`, CIPA, {protocol}: how the exponent was chosen, before any test."
    return ["### Pooling, on validation classes", about, markdown(header, rows)]


def _classes(results: Results) -> list[str]:
    """Intervals over classes beside those over episodes."""
    told = read_json(results.folder / "classes.json")
    try:
        if not all(finite(r[key], -100, 100) for r in told["rows"] for key in ("mean", "ci95", "ci95_classes")):
            raise ValueError("not a number of points")
        if not all(isinstance(r["what"], str) for r in told["rows"]):
            raise ValueError("not words")
        cells = {
            (r["what"], f"{r['classes']} ({r['number']})", r["shot"]): (
                f"{r['mean']:{'+' if len(r['weights']) > 1 else ''}.2f} ± {r['ci95']:.2f} (± {r['ci95_classes']:.2f})"
            )
            for r in told["rows"]
        }
        rows = [[*key, *(cells[*key, shot] for shot in SHOTS)] for key in unique([key[:2] for key in cells])]
        protocol = told["protocol"]
    except (KeyError, TypeError, ValueError):  # not there, or only a part of it
        rows = []
    if not rows:
        return []
    about = (
        f"`python benchmarks/classes.py`, {protocol}, with CIPA where no method is named. ± is over episodes of the "
        "same classes, as everywhere on this page and in the literature; in brackets, the 95 % half-width had the "
        "novel classes themselves been others (a jackknife that leaves out a class at a time), the networks being what "
        "they are. An accuracy on twenty classes says little about twenty others. What CIPA gains over prototypes and "
        "what HCT_R gains over the baseline holds for other classes too. HCT_R and S2M2_R, HCT and Manifold Mixup are "
        "a few tenths apart, one way on mini-ImageNet and the other on CUB, about as much as the brackets or little "
        "more, with one seed each. And two points on the sixteen validation classes of mini-ImageNet were nothing on "
        "its novel ones."
    )
    header = ["what", "classes", *(f"{shot}-shot" for shot in SHOTS)]
    return ["## Had the classes been others", about, markdown(header, rows)]


def _network(trial: Trial) -> str:
    return "HCT_R, self-distilled," if trial.run.teacher else "HCT_R"


def _quoted(row: Quoted, shot: int) -> str:
    value, ci95 = row.accuracy[shot], row.ci95[shot]
    return f"{value:.{row.digits}f}" + (f" ± {ci95:.{row.digits}f}" if ci95 else "")


def _source(row: Quoted) -> str:
    return f"quoted, after {row.via}" if row.via else "quoted"


def _hct_ablation(table: Table, results: Results) -> list[str]:
    return [*_by_data(table, results), *_seeds(results)]


def _by_data(table: Table, results: Results) -> list[str]:
    by_data = [(words, [row for row in table.rows if row.words[0] == words]) for words in ABLATED]
    return [part for words, rows in by_data for part in (f"### {words}", _by_training(rows, results))]


def _by_training(rows: Sequence[Row], results: Results) -> str:
    """A line for each network, a column for each inference; the paper's number in brackets."""
    columns = unique([row.words[3] for row in rows])
    header = ["trained with", "α", *(f"{shot}-shot: {words}" for shot in SHOTS for words in columns)]
    lines = []
    for run in unique([row.trial.run for row in rows]):
        own = [row for row in rows if row.trial.run == run]
        seed = f", {own[0].words[0].partition(', ')[2]}" if ", " in own[0].words[0] else ""
        cells = [own[0].words[1] + seed, own[0].words[2]]
        by_words = {row.words[3]: row for row in own}
        for i, shot in enumerate(SHOTS):
            for row in map(by_words.get, columns):
                told = f" ({row.paper[i]:.2f})" if row and row.paper[i] else ""
                cells.append(accuracy(results.get(row.trial, shot, row.method)) + told if row else "")
        lines.append([*cells, *_trained(run, results)])
    return markdown([*header, "training", "epochs", "seed", "hardware"], lines)


def _seeds(results: Results) -> list[str]:
    """CIFAR-FS: each seed, and mean and spread over them."""
    rows = []
    for trained, inference in unique([(row.words[1], row.words[3]) for row in SEEDS]):
        own = [row for row in SEEDS if (row.words[1], row.words[3]) == (trained, inference)]
        cells = []
        for shot in SHOTS:
            found = [results.get(row.trial, shot, row.method) for row in own]
            values = [r["accuracy"] for r in found if r]
            spread = f" (s = {np.std(values, ddof=1):.2f})" if len(values) > 1 else ""
            cells.append(f"{np.mean(values):.2f}{spread}, {count(len(values), 'seed')}" if values else NOT_MEASURED)
        rows.append([trained, inference, *cells])
    told = ["### CIFAR-FS, over seeds", _by_training(SEEDS, results), "Over the seeds, mean and standard deviation:"]
    return [*told, markdown(["trained with", "inference", "1-shot", "5-shot"], rows)]


def _inference(table: Table, results: Results) -> list[str]:
    parts = []
    for words, trial in COMPARED.items():
        balanced, dirichlet = all_methods(trial)
        if not any(results.of(one, shot) for one in (balanced, dirichlet) for shot in SHOTS):
            continue
        parts += [f"### {words}", "Balanced:", same_episodes(balanced, results)]
        parts += ["Dirichlet(2):", same_episodes(dirichlet, results)]
    return parts


def semi_curves(results: Results) -> dict[str, Curve]:
    """By name as in the paper's chart; only curves that are whole."""
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
    said = [[t.paper, "holds" if t.holds else "does not hold", t.found] for t in trends(curves)]
    return [
        markdown(["M =", *map(str, UNLABELLED)], rows),
        f"{count:,} episodes, intervals up to ± {largest:.2f}.",
        "![semi-supervised accuracy over M](images/semi.png)",
        "CIPA centres unlabelled pictures by their mean and queries not at all, as the paper says. “Queries centred "
        "too” centres each query by the mean of the unlabelled pictures, which uses no other query either.",
        "The paper's trends (near: within a factor of two):",
        markdown(["the paper says", "here", "found"], said),
    ]


def _figure3(table: Table, results: Results) -> list[str]:
    if not any(results.file(task.files[0]) for task in table.tasks):
        return ["The picture in the README is that of a first run."]
    return ["![prototypes on their way](images/adaptation.png)"]


def _paper_schedule(table: Table, results: Results) -> list[str]:
    best = [results.training(row.trial.run).get("best") for row in table.rows]
    words = [f"{row.words[1]}: epoch {b['epoch']}" for row, b in zip(table.rows, best) if b]
    told = [f"Best epoch by validation: {', '.join(words)}."] if words else []
    return [beside(table, table.rows, results), *told]
