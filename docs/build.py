"""Writes the tables of the pages from the JSON files under results/, docs/methods.md from the docstrings and
docs/commands.md from the command line's own help; draws the figures whose numbers are there.

    python docs/build.py

A test runs it and fails when a page and its sources differ, so no table is typed by hand.
"""

import inspect
import json
import re
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

from typer.testing import CliRunner

from benchmarks import bapa_choice, trust
from paper import arena, arena_page, scale_page
from paper.drawing import draw_bars
from paper.figures import draw_figures
from paper.main_plans import CHOSEN
from paper.quoted import paper_accuracy
from paper.results_page import results_page
from paper.stored_results import Results
from paper.tables import MAIN, TABLES
from protoadapt.cli.verbs import app
from protoadapt.core.methods import METHODS, declarations, family
from protoadapt.report.tables import markdown
from protoadapt.vision.pictures import formats

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results"
REAL = {"FC100": "fc100", "mini-ImageNet": "mini-imagenet", "CIFAR-FS": "cifar-fs", "CUB boxes": "cub-box"}


def read(name: str) -> dict:
    return json.loads((RESULTS / name).read_text())


def speed_page() -> str:
    cpu, gpu = read("benchmark-inference-cpu.json"), read("benchmark-inference-h200.json")
    rows = []
    for name, rate in {name: cpu["methods"][name] for name in METHODS if name in cpu["methods"]}.items():
        naive = cpu["naive_episodes_per_s"].get(name)
        ratio = f"{rate['episodes_per_s'] / naive:.1f} × {naive:,.0f}" if naive else ""
        agree = gpu.get("cpu_agreement", {}).get(name, {})
        share = f"{100 * agree['share']:.3f} % of {agree['of']:,}" if agree else ""
        there = f"{gpu['methods'][name]['episodes_per_s']:,.0f}" if name in gpu["methods"] else "not measured"
        rows.append([name, f"{rate['episodes_per_s']:,.0f}", ratio, there, share])
    header = [
        "method",
        "episodes/s",
        "× naive numpy loop",
        f"episodes/s, {gpu['hardware']}",
        "answers equal to the CPU's",
    ]
    peak = cpu["peak_gb"]
    runs = {"CIFAR-FS, nothing compiled before": "cifar-fs-hct_r-40", "CIFAR-FS": "cifar-fs", "FC100": "fc100"}
    runs |= {"mini-ImageNet": "mini-imagenet-1", "the same, second cycle": "mini-imagenet"}
    runs |= {"CUB, boxes, batch 128": "cub-box"}
    training = [
        [
            name,
            str(t["config"]["epochs"]),
            f"{t['start_up_seconds']:.0f} s",
            f"{t['seconds']:.0f} s",
            f"{t['images_per_second']:,.0f}",
            t["hardware"],
        ]
        for name, t in ((name, read(f"{run}/train.json")) for name, run in runs.items())
    ]
    kept = kept_table("objectives", read("benchmark-training.json"))
    named = read("benchmark-labeling.json")
    most = max(rate["episodes"] for rate in cpu["methods"].values())
    slow = {n: r["episodes"] for n, r in cpu["methods"].items() if n in METHODS and r["episodes"] < most}
    compiled = {name: rate["episodes_per_s"] for name, rate in cpu["methods"].items()}
    more = [name for name in slow if name in gpu["methods"] and gpu["methods"][name]["episodes"] > slow[name]]
    filled_gpu = f" On the GPU {', '.join(more)} had more episodes: a few leave it idle." if more else ""
    apart = [f"{_times(_rates(f'{run}/all-methods-1shot.json')):.1f}" for run in REAL.values()]
    parts = [
        "# Speed",
        "Written by `docs/build.py` from `results/benchmark-*.json` and the training results.",
        "## Inference",
        f"`python -m benchmarks.inference` on {cpu['hardware']}: {cpu['protocol']}, sampling included, synthetic "
        f"features; best of three runs of {most:,} episodes ({', '.join(slow)}: one run of {min(slow.values())} to "
        f"{max(slow.values()):,}). The naive way is the usual numpy loop over episodes, measured in the same run."
        f"{filled_gpu}",
        markdown(header, rows),
        f"10,000 CIPA episodes take {10_000 / cpu['methods']['cipa']['episodes_per_s']:.2f} s on the CPU and "
        f"{10_000 / gpu['methods']['cipa']['episodes_per_s']:.2f} s on the GPU; drawing them takes "
        f"{cpu['drawing_10000_s']:.2f} s and {gpu['drawing_10000_s']:.2f} s of that. Peak memory: "
        f"{peak['10000']:.2f} GB at 10,000 episodes, {peak['100000']:.2f} GB at 100,000.",
        "With 20 unlabelled pictures per class beside the queries, which then do not take part in the adaptation: "
        + ", ".join(f"{name} {rate:,.0f}" for name, rate in cpu["semi_episodes_per_s"].items())
        + " episodes/s.",
        "BAPA takes {:.2f} times CIPA's time.".format(
            cpu["methods"]["cipa"]["episodes_per_s"] / cpu["methods"]["bapa"]["episodes_per_s"]
        ),
        "CIPA beside PT+MAP, on the same episodes: the paper says that CIPA “requires much less computation”. On these "
        f"features that is {_times(cpu['naive_episodes_per_s']):.1f} × in naive numpy and {_times(compiled):.1f} × in "
        "the compiled loop. On the features of our networks, where Sinkhorn's iteration takes more rounds, CIPA is "
        f"{', '.join(apart)} times as fast ({', '.join(REAL)}; 1-shot, seconds of `results/*/all-methods-1shot.json`).",
        "## Training",
        "HCT_R, ResNet-12, 84 pixels, batch 256, bf16. Start-up is everything before the first step, compilation "
        "included; images/s counts all views that pass forward and backward, augmentation included.",
        markdown(["data", "epochs", "start-up", "training", "images/s", "hardware"], training),
        "`python -m benchmarks.training`: images/s of the bare network, forward and backward on data already on the "
        "GPU, and of the whole loop with augmentation, optimiser and logging, side by side on one NVIDIA H200:",
        kept,
        "[Each recipe](training.md#speed-of-the-recipes) beside the bare network.",
        "## Labelling pictures",
        _labeling(named),
    ]
    return "\n\n".join(parts) + "\n"


def kept_table(what: str, document: Mapping[str, Any]) -> str:
    """Images/s of the bare network and of the training loop, and their ratio."""
    rows = [
        [row["phase"], str(row["rows_a_step"])]
        + [f"{median(row[f'{side}_images_per_second']):,.0f}" for side in ("bare", "loop")]
        + [f"{100 * row['kept']:.1f} %"]
        for row in document["rows"]
    ]
    return markdown([what, "rows per step", "bare", "loop", "kept"], rows)


def training_page() -> str:
    """docs/training.md with the speed of the recipes between the two marks."""
    run = read("benchmark-recipes.json")
    measured = [row["phase"] for row in run["rows"]]
    missing = [name for name in run["settings"]["recipes"].split(",") if name not in measured]
    about = (
        f"Median of {run['settings']['repeats']} turns of {run['settings']['steps']} steps, "
        f"{run['settings']['backbone']}, {run['settings']['size']} pixels, on {run['hardware']}."
    )
    notes = [f"`{row['phase']}`: {row['note']}." for row in run["rows"] if "note" in row]
    left = f"Not measured: {', '.join(f'`{name}`' for name in missing)}."
    numbers = [about, kept_table("recipe", run), *notes, *([left] if missing else [])]
    return filled("docs/training.md", "\n\n".join(numbers), "speed")


def _labeling(run: Mapping[str, Any]) -> str:
    """What `benchmarks/labeling.py` measured, in words."""
    ratios, cpu = run["ratios"], {name: pair[1] for name, pair in run["seconds_and_cpu_seconds"].items()}
    wall = {name: pair[0] for name, pair in run["seconds_and_cpu_seconds"].items()}
    quiet = run["load"] <= run["threads"] + 0.5  # its own threads, and nothing else
    beside = "" if quiet else f", beside much other work (load {run['load']:.0f}), so that CPU time counts"
    share, both = ratios["files" if quiet else "files, CPU time"], wall if quiet else cpu
    words = (
        f"`python -m benchmarks.labeling` on {run['hardware']}{beside}; medians of {run['rounds']} turns side by side. "
        f"{run['model']} embeds {run['pictures']} JPEG files ({run['pictures_of']}) at {100 * share:.0f} % of the "
        f"speed of bare onnxruntime with its own settings on ready batches: {both['files']:.2f} s with reading and "
        f"decoding, {both['bare']:.2f} s without. Reading and decoding alone take {both['decoding']:.2f} s of the same "
        f"cores: files take {100 * both['files'] / (both['bare'] + both['decoding']):.0f} % of both together, as each "
        "thread has pictures of its own, where onnxruntime's threads share one and wait for each other. Where decoding "
        f"has no core of its own, both in turn reach {100 * both['bare'] / (both['bare'] + both['decoding']):.0f} % of "
        "bare onnxruntime. "
        f"Torch takes {ratios['over torch' if quiet else 'over torch, CPU time']:.1f} times the time of bare "
        "onnxruntime."
    )
    if "label" in ratios:
        words += (
            f" The command `label` on these pictures takes {both['label']:.1f} s, start-up and report included, and "
            f"`predict` of one picture {both['predict']:.1f} s: once the network's graph is in the user's cache, "
            f"nothing loads torch, which takes {both['import torch']:.1f} s."
        )
    return words


def _times(rates: Mapping[str, float]) -> float:
    return rates["cipa"] / rates["pt_map"]


def _rates(file: str) -> dict[str, float]:
    """Episodes per second by method."""
    return {r["label"]: r["episodes"] / r["seconds"] for r in read(file)["results"]}


def methods_page() -> str:
    parts = [
        "# Inference methods",
        "Written by `docs/build.py` from the docstrings. Every method takes `Episodes` and returns class probabilities "
        "(E, Q, W) for E episodes, Q queries and W classes; names and arguments are those of `--method` and `--set`. "
        "Each is checked against a slow loop written from its paper's equations, and all obey the same laws "
        "(`tests/core/test_laws.py`).",
    ]
    for name, function in METHODS.items():
        module = sys.modules[function.__module__]
        parts += [f"## {name}", _prose(module.__doc__), _prose((function.__doc__ or "").split(">>>")[0])]
        settings = declarations(function).values()
        rows = [[f"`{s.name}`", f"`{s.default}`", s.help, s.range] for s in settings]
        parts += [markdown(["setting", "default", "meaning", "range"], rows)] if rows else []
    loop = inspect.cleandoc(family.__doc__ or "")
    return "\n\n".join([*parts, "## The loop that six of them share", f"```text\n{loop}\n```"]) + "\n"


def commands_page() -> str:
    parts = ["# Commands", "Written by `docs/build.py`: what `protoadapt COMMAND --help` says."]
    for command in app.registered_commands:
        name = command.name
        told = CliRunner().invoke(app, [name, "--help"], prog_name="protoadapt", env={"COLUMNS": "120"}).stdout
        lines = "\n".join(line.rstrip() for line in told.strip().splitlines())
        parts += [f"## {name}", f"```text\n{lines}\n```"]
    return "\n\n".join(parts) + "\n"


def models_page() -> str:
    """docs/models.md with its tables between the marks."""
    return filled("docs/models.md", _embeddings())


def _embeddings() -> str:
    """What `benchmarks/embeddings.py` measured."""
    run = read("embeddings.json")
    models = list(run["cpu_ms_per_picture"])
    rows = [["CPU time per picture", "", *(f"{run['cpu_ms_per_picture'][name]:.0f} ms" for name in models)]]
    for data, tasks in run["accuracy"].items():
        for task, cells in tasks.items():
            rows.append([data, task, *("{:.1f} ± {:.1f}".format(*cells[name]) for name in models)])
    sizes = ", ".join(f"{data} {n} of {classes} classes" for data, (classes, n) in run["classes_and_pictures"].items())
    return (
        f"Larger and joined networks with BAPA as of November 2026 (`benchmarks/embeddings.py`; pictures: {sizes}; "
        f"{run['episodes']} episodes with 5 classes, fewer with more; CPU time of one core with "
        "onnxruntime). Dogs are pictures that all "
        f"these networks were trained on.\n\n{markdown(['pictures', 'task', *models], rows)}\n\n{_larger(run)}"
    )


def _larger(run: Mapping[str, Any]) -> str:
    """What larger networks cost and gain: the range, over tasks, of the mean gain of all sets but the dogs."""

    def words(name: str) -> tuple[str, str]:
        tasks: dict[str, list[float]] = {}
        for data, cells in run["accuracy"].items():
            for task, accuracies in cells.items():
                if data != "dogs" and not task.startswith("10-way"):  # which one set has
                    tasks.setdefault(task, []).append(accuracies[name][0] - accuracies["lite0"][0])
        gains = [sum(of_sets) / len(of_sets) for of_sets in tasks.values()]
        times = run["cpu_ms_per_picture"]
        return f"{times[name] / times['lite0']:.1f} times", f"{min(gains):.1f} to {max(gains):.1f} points"

    return (
        "`lite0` stays the default: `lite2` takes {} its time for {} (means over the other sets, with 5 and with 20 "
        "classes). Where time matters less, `--model lite0+lite2` takes {} as long and gains {}, most with 20 classes."
    ).format(*words("lite2"), *words("lite0+lite2"))


def _prose(docstring: str | None) -> str:
    """A docstring as Markdown; indented lines (arguments, equations) stay as they are."""
    text = inspect.cleandoc(docstring or "")
    if not re.search(r"^\s{2,}|\S\s{3,}\S", text, re.MULTILINE):
        return text
    first, _, rest = text.partition("\n\n")
    return f"{first}\n\n```text\n{rest}\n```"


def readme() -> str:
    """README.md with its numbers between the two marks."""
    cpu = read("benchmark-inference-cpu.json")
    results = Results(RESULTS)
    rows = []
    names = {"ProtoNet": "protonet", "CIPA": "cipa", "BAPA": "bapa", "PT+MAP †": "pt_map"}
    for words, (table, trial) in CHOSEN.items():
        if words.endswith("→ CUB, whole pictures"):
            continue
        found = [[results.get(MAIN[words][1], shot, "cipa") for shot in (1, 5)]]
        found += [[results.get(trial, shot, name) for shot in (1, 5)] for name in names.values()]
        alone, *cells = [" / ".join(f"{one['accuracy']:.2f}" for one in pair) if all(pair) else "" for pair in found]
        rows.append([words, "{:.2f} / {:.2f}".format(*paper_accuracy(table)), alone, *cells])
    header = ["novel classes of", "the paper's HCT_R + CIPA", "here", *names]
    measured = [i for i in range(len(header)) if any(row[i] for row in rows)]
    header, *rows = ([row[i] for i in measured] for row in (header, *rows))
    cipa = cpu["methods"]["cipa"]["episodes_per_s"]
    numbers = (
        "## Numbers\n\nAccuracy in percent at 5-way 1-shot / 5-shot, 10,000 episodes with balanced queries, ResNet-12, "
        "one view per picture: HCT_R + CIPA as in the paper, and beside it three methods on the networks that "
        "validation classes chose (mini-ImageNet's after a second cycle; those of CIFAR-FS, mini-ImageNet and whole "
        "pictures of CUB with EPNet's episodes after HCT_R). [What reproduced](docs/reproduced.md) says more.\n\n"
        f"{markdown(header, rows)}\n\n"
        "† is given that classes are equally frequent. "
        "[All results](docs/results.md): intervals over episodes and over classes, unbalanced queries, ablations, "
        f"other methods. CIPA runs {cipa:,.0f} episodes per second on two CPU cores, "
        f"{cipa / cpu['naive_episodes_per_s']['cipa']:.0f} times the usual numpy loop ([speed](docs/speed.md))."
    )
    return filled("README.md", numbers)


def filled(page: str, numbers: str, name: str = "numbers", text: str | None = None) -> str:
    """A page, or a text in its place, with new numbers between the two marks of that name."""
    mark = re.compile(rf"(<!-- {name}: begin -->\n).*?(<!-- {name}: end -->)", re.DOTALL)
    old = (ROOT / page).read_text() if text is None else text
    new, places = mark.subn(lambda m: f"{m[1]}{numbers}\n{m[2]}", old)
    if places != 1:
        raise ValueError(f"{page} has {places} places for numbers: it needs one pair of <!-- {name}: … --> marks")
    return new


def labeling_page() -> str:
    """docs/labeling.md with its tables."""
    text = (ROOT / "docs" / "labeling.md").read_text()
    for name, table in trust.tables_of(read("trust.json")).items():
        text = filled("docs/labeling.md", table, name, text)
    suffixes = ", ".join(f"`{suffix}`" for some in formats.FORMATS.values() for suffix in some)
    kinds = f"{suffixes} ({formats.LISTED}), of at most {formats.MAX_PIXELS:,} pixels"
    same = f"- Every command reads the same files: {kinds}."
    return filled("docs/labeling.md", same, "formats", text)


def scale_text() -> str:
    """docs/scale.md with its numbers between the two marks."""
    record = read("benchmark-scale.json")
    return filled("docs/scale.md", scale_page.numbers(record))


def serve_page() -> str:
    """docs/serve.md with the endpoint's rates between the two marks."""
    record = read("benchmark-serve.json")
    rows = [
        [str(turn["clients"]), f"{turn['per_second']:.1f}", f"{turn['bare']:.1f}", f"{100 * turn['ratio']:.0f} %"]
        + [f"{turn['median_ms']:,.0f} ms", str(len(turn["errors"]))]
        for turn in record["turns"]
    ]
    first, last = record["flat"]
    words = (
        f"`python -m benchmarks.serve` with {record['model']} on {record['hardware']}. The load generator runs on the "
        "same cores; the bare network computes ready batches of 16 right before each turn."
    )
    if record["load"] > 3:
        words += f" Other work kept the machine busy (load {record['load']:.0f}): only the ratios say something."
    memory = (
        f"Memory after {first['requests']:,} requests: {first['memory_mb']} MB; after {last['requests']:,} more: "
        f"{last['memory_mb']} MB, {len(last['errors'])} errors."
    )
    table = markdown(["clients", "requests/s", "bare network, pictures/s", "ratio", "median", "errors"], rows)
    return filled("docs/serve.md", f"{words}\n\n{table}\n\n{memory}")


def bapa_page() -> str:
    """docs/bapa.md with the cells that its constants were chosen on, and novel classes read afterwards."""
    return filled("docs/bapa.md", bapa_choice.beside(read("bapa-choice.json"), read("bapa-novel.json")))


def arena_text() -> str:
    """docs/arena.md with its tables between the two marks."""
    return filled("docs/arena.md", arena_page.numbers(arena.read(RESULTS / "arena.csv")))


def draw_which_method(folder: Path) -> Path:
    """The picture of docs/which-method.md, from an arena that is measured."""
    groups, series = arena_page.bars(arena.read(RESULTS / "arena.csv"))
    title = "5-shot, mean over novel classes of all sets"
    if groups:
        draw_bars(groups, series, folder / "which-method.png", "queries", "% right", title)
    return folder / "which-method.png"


def faults_page() -> str:
    """docs/faults.md with the campaign's table between the two marks."""
    run = read("faults.json")
    rows = []
    for part, counts in run["parts"].items():
        ends = Counter[str]()
        for end, n in counts["ends"].items():  # "label killed inside a write": of all commands together
            ends[end.rpartition("killed ")[2]] += n
        said = "; ".join(f"{end}: {n:,}" for end, n in sorted(ends.items()))
        rows.append([part, f"{counts['done']:,}", said, str(len(counts["findings"]))])
    total = sum(part["done"] for part in run["parts"].values())
    table = markdown(["part", "cases", "how they ended", "findings"], rows)
    return filled("docs/faults.md", f"{total:,} cases, seed {run['seed']}:\n\n{table}")


PAGES = {
    "docs/results.md": lambda: results_page(RESULTS),
    "docs/speed.md": speed_page,
    "docs/methods.md": methods_page,
    "docs/commands.md": commands_page,
    "docs/models.md": models_page,
    "docs/labeling.md": labeling_page,
    "docs/arena.md": arena_text,
    "docs/bapa.md": bapa_page,
    "docs/scale.md": scale_text,
    "docs/faults.md": faults_page,
    "docs/training.md": training_page,
    "docs/serve.md": serve_page,
    "README.md": readme,
}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (ROOT / name).write_text(page())
        print(name)
    print(draw_which_method(ROOT / "docs" / "images").relative_to(ROOT))
    for table in TABLES:
        for figure in draw_figures(table, Results(RESULTS), ROOT / "docs" / "images"):
            print(figure.relative_to(ROOT))
