"""Writes docs/results.md, docs/speed.md and the numbers in README.md from the JSON files under results/, and
docs/methods.md from the docstrings.

    python docs/build.py

A test runs it and fails when a page and its JSON files differ, so no number is typed by hand.
"""

import inspect
import json
import re
import sys
from pathlib import Path

from protoadapt.methods import METHODS, adaptation, method
from protoadapt.report.tables import comparison, markdown, paired

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results"

# The paper's HCT_R + CIPA (its Tables 1 to 4), 1-shot / 5-shot; None: not measured here yet.
MAIN_ROWS = {
    "CIFAR-FS": ((85.72, 89.69), "cifar-fs-hct_r-40"),
    "FC100": ((53.30, 64.90), None),
    "mini-ImageNet": ((76.94, 85.10), "mini-hct_r-82"),
    "tiered-ImageNet": ((81.70, 87.91), None),
    "CUB": ((93.03, 94.90), None),
    "mini-ImageNet → CUB": ((62.15, 74.25), None),
}


def read(name: str) -> dict:
    return json.loads((RESULTS / name).read_text())


def results_page() -> str:
    header = ["dataset", "shot", "paper", "here", "difference", "training", "epochs", "seed", "hardware"]
    rows = []
    for dataset, (paper, run) in MAIN_ROWS.items():
        for shot, published in zip((1, 5), paper):
            if run is None:
                rows.append([dataset, str(shot), f"{published:.2f}", "not measured yet", *[""] * 5])
                continue
            told, train = read(f"{run}/novel-{shot}shot.json"), read(f"{run}/train.json")
            cipa = next(r for r in told["results"] if r["label"] == "cipa")
            rows.append(
                [
                    *(dataset, str(shot), f"{published:.2f}", f"{cipa['accuracy']:.2f} ± {cipa['ci95']:.2f}"),
                    *(f"{cipa['accuracy'] - published:+.2f}", f"{train['seconds']:.0f} s"),
                    *(str(train["config"]["epochs"]), str(train["config"]["seed"]), train["hardware"]),
                ]
            )
    parts = [
        "# Results",
        "Written by `docs/build.py` from the JSON files under `results/`. 5-way, 15 queries a class, 95 % confidence "
        "intervals; 10,000 episodes unless said. One seed each. One view a picture, one ResNet-12.",
        "## HCT_R + CIPA beside the paper",
        markdown(header, rows),
        "These are first runs, a few minutes of training each. The pictures of tiered-ImageNet are not at hand.",
    ]
    for dataset, (_, run) in MAIN_ROWS.items():
        for shot in (1, 5) if run else ():
            told = read(f"{run}/novel-{shot}shot.json")
            parts += [f"## {dataset}, {shot}-shot, the same episodes", markdown(*_accuracies(told))]
            extra = RESULTS / f"{run}/all-methods-{shot}shot.json"
            if extra.exists():
                told = read(f"{run}/all-methods-{shot}shot.json")
                count = told["results"][0]["episodes"]
                parts += [f"All methods, {count:,} episodes:", markdown(*_accuracies(told))]
            imbalanced = RESULTS / f"{run}/dirichlet-{shot}shot.json"
            if imbalanced.exists():
                told = read(f"{run}/dirichlet-{shot}shot.json")
                count = told["results"][0]["episodes"]
                parts += [
                    f"Imbalanced queries (75 an episode, class shares from Dirichlet(2)), {count:,} episodes:",
                    markdown(*_accuracies(told)),
                ]
    return "\n\n".join(parts) + "\n"


def _accuracies(told: dict) -> tuple[list[str], list[list[str]]]:
    """Without times: accuracies are of the method, times of the machine (docs/speed.md has those)."""
    header, rows = comparison(told["results"], told["reference"])
    return header[:-2], [row[:-2] for row in rows]


def speed_page() -> str:
    cpu, gpu = read("benchmark-inference-cpu.json"), read("benchmark-inference-h200.json")
    rows = []
    for name, rate in cpu["methods"].items():
        naive = cpu["naive_episodes_per_s"].get(name)
        ratio = f"{rate['episodes_per_s'] / naive:.1f} × {naive:,.0f}" if naive else ""
        agree = gpu["cpu_agreement"].get(name, {})
        share = f"{100 * agree['share']:.3f} % of {agree['of']:,}" if agree else ""
        there = f"{gpu['methods'][name]['episodes_per_s']:,.0f}"
        rows.append([name, f"{rate['episodes_per_s']:,.0f}", ratio, there, share])
    header = [
        "method",
        "episodes/s",
        "× naive numpy loop",
        f"episodes/s, {gpu['hardware']}",
        "answers equal to the CPU's",
    ]
    peak = cpu["peak_gb"]
    runs = {"CIFAR-FS": read("cifar-fs-hct_r-40/train.json"), "mini-ImageNet": read("mini-hct_r-82/train.json")}
    training = [
        [
            *(name, str(t["config"]["epochs"]), f"{t['start_up_seconds']:.0f} s", f"{t['seconds']:.0f} s"),
            *(f"{t['images_per_second']:,.0f}", t["hardware"]),
        ]
        for name, t in runs.items()
    ]
    parts = [
        "# Speed",
        "Written by `docs/build.py` from `results/benchmark-*.json` and the training results.",
        "## Inference",
        f"`python benchmarks/inference.py` on {cpu['hardware']}: {cpu['protocol']}, sampling included, best of three. "
        "The naive way is the usual numpy loop over episodes, in the same run.",
        markdown(header, rows),
        f"10,000 CIPA episodes take {10_000 / cpu['methods']['cipa']['episodes_per_s']:.2f} s on the CPU and "
        f"{10_000 / gpu['methods']['cipa']['episodes_per_s']:.2f} s on the GPU; drawing them takes "
        f"{cpu['drawing_10000_s']:.2f} s of that. Peak memory: {peak['10000']:.2f} GB at 10,000 episodes, "
        f"{peak['100000']:.2f} GB at 100,000.",
        "CIPA beside PT+MAP, on the same episodes: the paper says that CIPA “requires much less computation”. In naive "
        f"numpy that is {cpu['naive_episodes_per_s']['cipa'] / cpu['naive_episodes_per_s']['pt_map']:.1f} ×, in the "
        f"compiled loop {cpu['methods']['cipa']['episodes_per_s'] / cpu['methods']['pt_map']['episodes_per_s']:.1f} ×: "
        "there both spend most of their time on the same Gram matrix.",
        "## Training",
        "HCT_R, ResNet-12, 84 pixels, batch 256, bf16. Start-up is everything before the first step, compilation "
        "included; images/s counts all views that pass forward and backward, augmentation included.",
        markdown(["data", "epochs", "start-up", "training", "images/s", "hardware"], training),
    ]
    return "\n\n".join(parts) + "\n"


def methods_page() -> str:
    parts = [
        "# Inference methods",
        "Written by `docs/build.py` from the docstrings. Every method takes `Episodes` and returns class probabilities "
        "(E, Q, W) for E episodes, Q queries and W classes; names and arguments are those of `--method` and `--set`. "
        "Each is checked against a slow loop written from its paper's equations, and all keep the same laws "
        "(`tests/test_laws.py`).",
    ]
    for name, function in METHODS.items():
        module = sys.modules[function.__module__]
        settings = ", ".join(f"`{key}={value!r}`" for key, value in method(function).settings.items())
        parts += [f"## {name}", _prose(module.__doc__), _prose(function.__doc__)]
        parts += [f"Arguments: {settings}."] if settings else []
    family = inspect.cleandoc(adaptation.__doc__ or "")
    return "\n\n".join([*parts, "## The loop that four of them share", f"```text\n{family}\n```"]) + "\n"


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
    rows = []
    for dataset, (paper, run) in MAIN_ROWS.items():
        if run is None:
            continue
        for shot in (1, 5):
            told = read(f"{run}/novel-{shot}shot.json")
            by_name = {r["label"]: r for r in told["results"]}
            gain = "{:+.2f} ± {:.2f}".format(*paired(by_name["cipa"], by_name["protonet"]))
            names = ("protonet", "semi_protonet", "cipa", "pt_map")
            published = f"{paper[shot == 5]:.2f}"
            rows.append([dataset, str(shot), *(f"{by_name[n]['accuracy']:.2f}" for n in names), gain, published])
    header = ["novel classes of", "shot", "ProtoNet", "SemiPN", "CIPA", "PT+MAP (told: equal classes)"]
    header += ["CIPA − ProtoNet, paired", "the paper's CIPA"]
    cipa = cpu["methods"]["cipa"]["episodes_per_s"]
    numbers = (
        "## Numbers\n\nOne ResNet-12 trained with HCT_R for a few minutes on one GPU, 10,000 episodes, one seed "
        f"([all results](docs/results.md)):\n\n{markdown(header, rows)}\n\n"
        "These are first runs, still below the paper. Queries here are balanced; where they are not, PT+MAP and, at "
        "5-shot, CIPA fall below ProtoNet, and BAPA holds.\n\n"
        f"CIPA runs {cipa:,.0f} episodes a second on two CPU cores, {cipa / cpu['naive_episodes_per_s']['cipa']:.0f} "
        "times the usual numpy loop ([speed](docs/speed.md))."
    )
    mark = re.compile(r"(<!-- numbers: begin -->\n).*?(<!-- numbers: end -->)", re.DOTALL)
    return mark.sub(lambda m: f"{m[1]}{numbers}\n{m[2]}", (ROOT / "README.md").read_text())


PAGES = {
    "docs/results.md": results_page,
    "docs/speed.md": speed_page,
    "docs/methods.md": methods_page,
    "README.md": readme,
}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (ROOT / name).write_text(page())
        print(name)
