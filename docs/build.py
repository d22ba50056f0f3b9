"""Writes the small tables of README and docs, and research/results.md, from the JSON files under results/.

    python docs/build.py

A test fails when a page and its sources differ, so no number of a table is typed by hand. Numbers of a method that has
changed since are left out.
"""

import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks import trust
from paper import arena, arena_page
from paper.drawing import draw_bars
from paper.figures import draw_figures
from paper.plan import Trial, unique
from paper.quoted import paper_accuracy
from paper.results_page import results_page
from paper.stored_results import SHOTS, Results
from paper.tables import MAIN, TABLES
from protoadapt.core.methods.bapa import N_ITER
from protoadapt.report.tables import markdown
from protoadapt.vision.networks.timm_names import TIMM

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results"
SHOWN = {"protonet": "ProtoNet", "cipa": "CIPA", "bapa": "BAPA", "pt_map": "PT+MAP †"}
CELLS = {
    "balanced": "equally many of each class",
    "Dirichlet(2)": "unequally many, Dirichlet(2)",
    "Dirichlet(0.5)": "very unequally many, Dirichlet(0.5)",
    "5 of 10 classes": "5 of 10 candidate classes",
    "one class": "all of one class",
    "30 % foreign": "30 % of none of the classes",
    "3 queries in all": "3 pictures in all",
}
"""Kinds of tasks in bapa-novel.json that help to decide, and what they are."""
RECIPES = {
    "1 to 4: HCT_R + CIPA beside others": "main",
    "5: how the embedding is trained (this is Table 5; the next two are its rows made otherwise)": "hct_ablation",
    "5, on whole pictures of CUB": "cub_whole",
    "5, by the paper's own schedule": "paper_length",
    "6: the parts of CIPA": "cipa_ablation",
    "appendix: more unlabelled pictures": "semi",
    "figure 3: the path of the prototypes": "figure3",
    "all methods on the same features": "inference",
    "text: CIPA and PT+MAP where class sizes differ": "imbalance",
    "none: what small files cost on CUB": "small_files",
    "none: a wide ResNet-12, and three networks joined": "wide",
}
"""Table of the paper → name of its plan."""


def read(name: str) -> dict[str, Any]:
    return json.loads((RESULTS / name).read_text())


def words_table(header: list[str], rows: list[list[str]]) -> str:
    """A table of words, aligned to the left."""
    return markdown(header, rows).replace("---:", "---")


def main_table() -> str:
    """HCT_R alone and one view per picture, as the paper's main rows; sets that are measured."""
    results = Results(RESULTS)
    names = ["protonet", "cipa", "pt_map"]
    rows = [
        [words, *(_pair(results, trial, name) for name in names), "{:.2f} / {:.2f}".format(*paper_accuracy(table))]
        for words, (table, trial) in MAIN.items()
        if results.get(trial, 1, "cipa")
    ]
    return markdown(["novel classes of", *(SHOWN[name] for name in names), "the paper's CIPA"], rows)


def _pair(results: Results, trial: Trial, name: str) -> str:
    records = [results.get(trial, shot, name) for shot in SHOTS]
    return " / ".join(f"{record['accuracy']:.2f}" for record in records if record) or "–"


def kinds_table() -> str:
    """Mean accuracies by kind of tasks, 1-shot / 5-shot."""
    means = novel_means()
    rows = [
        [words, *(" / ".join(f"{means[cell, name, shot]:.1f}" for shot in SHOTS) for name in SHOWN)]
        for cell, words in CELLS.items()
    ]
    return markdown(["unlabelled pictures", *SHOWN.values()], rows)


def novel_means() -> dict[tuple[str, str, int], float]:
    rows = read("bapa-novel.json")["rows"]
    return {(row["cell"], row["method"].replace("(power=auto)", ""), row["shot"]): row["mean"] for row in rows}


def collections_table() -> str:
    """Percent right with lite0 on photographs, by the number of examples per class."""
    right: dict[str, dict[int, list[float]]] = {}
    for row in read("trust.json")["foreign"]:
        network, _, name = row["collection"].partition("-")
        if row["foreign"] == "nothing" and network == "lite0":
            right.setdefault(name, {}).setdefault(row["examples"], []).append(row["right"])
    lines = sorted(right.items(), key=lambda item: -mean(item[1][max(item[1])]))
    rows = [
        [name, *(f"{mean(values):.0f}" for _, values in sorted(by_examples.items()))] for name, by_examples in lines
    ]
    return markdown(["pictures of", *(f"{n} per class" for n in trust.SHOTS)], rows)


def networks_table() -> str:
    """Time of one core per picture."""
    times = read("embeddings.json")["cpu_ms_per_picture"]
    return markdown(
        ["network", "ms per picture on one core"], [[f"`{name}`", f"{ms:.0f}"] for name, ms in times.items()]
    )


def timm_table() -> str:
    """The networks of timm that have a name here: what timm records of them."""
    rows = [
        [f"`{name}`", str(known.size), str(known.dim), f"{known.mb:,}", known.licence] for name, known in TIMM.items()
    ]
    return markdown(["network", "pixels", "numbers per picture", "MB", "licence, as timm records it"], rows)


def labeling_seconds() -> str:
    """How long `label` takes, by the number of pictures."""
    run = read("benchmark-labeling.json")
    seconds = {name: pair[0] for name, pair in run["seconds_and_cpu_seconds"].items()}
    each = seconds["files"] / run["pictures"]
    rows = [
        [
            f"{n:,}",
            f"{seconds['label'] + each * (n - run['pictures']):.0f} s"
            + (" (measured)" if n == run["pictures"] else ""),
        ]
        for n in (run["pictures"], 2000)
    ]
    about = (
        f"`{run['model']}` on {run['hardware']}, pictures of {run['pictures_of'].partition(',')[0]} pixels. Further "
        f"pictures are counted at {1000 * each:.1f} ms each, which is what reading and the network take:"
    )
    return f"{about}\n\n{markdown(['pictures', 'label, start and report included'], rows)}"


def inference_table() -> str:
    cpu, gpu = read("benchmark-inference-cpu.json"), read("benchmark-inference-h200.json")
    rows = []
    for name in ("protonet", "cipa", "bapa", "pt_map", "laplacian_shot", "tim_adm", "alpha_tim"):
        rates = [run["methods"][name]["episodes_per_s"] for run in (cpu, gpu)]
        naive = cpu["naive_episodes_per_s"].get(name)
        rows.append([name, *(f"{rate:,.0f}" for rate in rates), f"{naive:,.0f}" if naive else ""])
    return markdown(["method", cpu["hardware"], gpu["hardware"], "numpy loop over tasks, same cores"], rows)


def training_table() -> str:
    runs = {"CIFAR-FS": "cifar-fs", "FC100": "fc100", "mini-ImageNet": "mini-imagenet-1", "CUB, boxes": "cub-box"}
    trained = {words: read(f"{run}/train.json") for words, run in runs.items()}
    rows = [
        [words, str(one["config"]["epochs"]), f"{one['seconds'] / 60:.1f}", f"{one['images_per_second']:,.0f}"]
        for words, one in trained.items()
    ]
    return markdown(["HCT_R on", "epochs", "minutes on one H200", "views per second"], rows)


def recipes_table() -> str:
    """Per table of the paper: command, data, networks, and the hours that those took which are trained."""
    results = Results(RESULTS)
    rows = []
    for words, name in RECIPES.items():
        parts = TABLES[name].parts
        runs = unique(run for part in parts for run in part.run.cycles)
        hours = [results.training(run)["seconds"] / 3600 for run in runs if results.training(run)]
        data = ", ".join(sorted({part.dataset for part in parts}))
        networks = f"{len(runs)}" + (f", of which {len(hours)} are trained" if len(hours) < len(runs) else "")
        rows.append([words, f"`{name}`", data, networks, f"{sum(hours):.1f}"])
    return words_table(["table of the paper", "TABLE", "data", "networks", "hours on one H200"], rows)


def scale_table() -> str:
    """Rates of extraction, and labelling of stored rows by the methods whose number of steps is still the default."""
    run = read("benchmark-scale.json")
    large, small, cpu = run["extract-cuda"], run["extract-cuda-small"], run["extract"]
    lite0 = 1000 / read("embeddings.json")["cpu_ms_per_picture"]["lite0"]
    rates = [
        [f"ResNet-12 at 84 pixels, {hardware}", pictures, f"{rate:,.0f}", f"{10_000_000 / rate / 3600:.2g}"]
        for hardware, pictures, rate in (
            (f"{large['hardware']}, {large['cores']} cores", large["of"], large["extract_steady"]),
            (f"{small['hardware']}, {small['cores']} cores", small["of"], small["extract_steady"]),
            (cpu["hardware"], "500 × 375", cpu["extract_steady"]),
        )
    ]
    rates.append(["`lite0`, one core (the network alone)", "", f"{lite0:,.0f}", f"{10_000_000 / lite0 / 3600:.2g}"])
    steps = {"cipa": 20, "bapa": N_ITER}
    named = [
        [one["method"], f"{one['rows']:,}", f"{one['seconds']:.0f}", f"{one['peak_gb']:.2f}"]
        for one in run["label"]["runs"]
        if one["steps"] == steps[one["method"]] and one["rows"] in (1_007_616, 10_000_000)
    ]
    extract = markdown(["network, machine", "pictures", "pictures/s once started", "hours for ten million"], rates)
    label = markdown(["method", "rows", "seconds", "peak GB"], named)
    whole = f"{large['extract']:,.0f} and {small['extract']:,.0f}"
    return (
        f"{extract}\n\nWhole runs on the GPU, start included: {whole} pictures/s ({large['pictures']:,} and "
        f"{small['pictures']:,} pictures).\n\nNaming stored rows of {run['label']['dim']} dimensions, "
        f"{run['label']['classes']} classes, on {run['hardware']}:\n\n{label}"
    )


def serve_table() -> str:
    run = read("benchmark-serve.json")
    rows = [
        [str(turn["clients"]), f"{turn['per_second']:.0f}", f"{turn['median_ms']:,.0f} ms"] for turn in run["turns"]
    ]
    last = run["flat"][-1]
    memory = f"The process held {last['memory_mb']} MB after {last['requests']:,} further requests."
    head = f"`{run['model']}` on {run['hardware']}, the clients on the same cores:"
    return f"{head}\n\n{markdown(['clients', 'requests/s', 'median'], rows)}\n\n{memory}"


def faults_table() -> str:
    run = read("faults.json")
    rows = []
    for part, counts in run["parts"].items():
        ends = Counter[str]()
        for end, n in counts["ends"].items():  # "label killed inside a write": of all commands together
            ends[end.rpartition("killed ")[2]] += n
        said = "; ".join(f"{end}: {n:,}" for end, n in sorted(ends.items()))
        rows.append([part, f"{counts['done']:,}", said, str(len(counts["findings"]))])
    return words_table(["part", "cases", "how they ended", "findings"], rows)


def foreign_table() -> str:
    """What is found of pictures of none of the classes, and what that costs; means over 1, 2 and 5 examples."""
    rows = []
    for foreign in trust.FOREIGN:
        some = [row for row in read("trust.json")["foreign"] if row["foreign"] == foreign]
        good = [row for row in some if row["right"] >= trust.GOOD]
        found = [f"{trust.mean(good, key):.0f} %" for key in ("found", "in_one_group")]
        numbers = [f"{trust.mean(some, 'known_unknown'):.1f} %", *found, f"{trust.mean(some, 'change'):+.1f}"]
        rows.append([foreign, *("–" if "nan" in number else number for number in numbers)])
    header = ["in the folder, of none of the classes", "known pictures called unknown", "foreign pictures found"]
    return markdown([*header, "of one kind in one group", "change of right names, points"], rows)


def confidence_table() -> str:
    """Expected calibration error, with random examples and with labels in the order of `suggest`."""
    record, turns = read("trust.json"), (1, 3, 5)
    rows = []
    for examples in trust.SHOTS:
        fresh = [r for r in record["foreign"] if (r["foreign"], r["examples"]) == ("nothing", examples)]
        after = [r for r in record["next"] if (r["rule"], r["start"]) == ("suggest", examples)]
        later = [trust.mean([r for r in after if r["round"] == turn], "ece") for turn in turns]
        rows.append([str(examples), *(f"{error:.1f}" for error in (trust.mean(fresh, "ece"), *later))])
    return markdown(
        ["examples per class", "as drawn", *(f"and {trust.ASKED * turn} suggested" for turn in turns)], rows
    )


def trust_table(name: str) -> Callable[[], str]:
    return lambda: trust.tables_of(read("trust.json"))[name]


def arena_text() -> str:
    return arena_page.numbers(arena.read(RESULTS / "arena.csv"))


PLACES: dict[str, dict[str, Callable[[], str]]] = {
    "README.md": {"main": main_table},
    "docs/accuracy.md": {"collections": collections_table, "main": main_table, "kinds": kinds_table},
    "docs/models.md": {"networks": networks_table, "timm": timm_table},
    "docs/limits.md": {
        "foreign": foreign_table,
        "confidence": confidence_table,
        "estimate": trust_table("estimate"),
        "suggest": trust_table("suggest"),
    },
    "docs/reproduce.md": {"recipes": recipes_table},
    "docs/speed.md": {"label": labeling_seconds, "inference": inference_table, "training": training_table},
    "docs/scale.md": {"scale": scale_table},
    "docs/deploy.md": {"serve": serve_table},
    "docs/reliability.md": {"faults": faults_table},
    "research/arena.md": {"arena": arena_text},
}
"""Page → name of a place in it → what stands there."""


def filled(page: str) -> str:
    """A page with today's tables between its marks."""
    text = (ROOT / page).read_text()
    for name, table in PLACES[page].items():
        mark = re.compile(rf"(<!-- {name}: begin -->\n).*?(<!-- {name}: end -->)", re.DOTALL)
        numbers = table()
        text, places = mark.subn(lambda m, numbers=numbers: f"{m[1]}{numbers}\n{m[2]}", text)
        if places != 1:
            raise ValueError(f"{page} has {places} places for {name}: it needs one pair of <!-- {name}: … --> marks")
    return text


def pages() -> dict[str, str]:
    """Every committed page that holds generated tables."""
    return {page: filled(page) for page in PLACES} | {"research/results.md": results_page(RESULTS)}


def draw(folder: Path, research: Path) -> None:
    """The pictures whose numbers are there."""
    means = novel_means()
    series = {words: [means[cell, name, 5] for cell in CELLS] for name, words in SHOWN.items()}
    groups = ["equal", "Dirichlet(2)", "Dirichlet(0.5)", "5 of 10 classes", "one class", "30 % foreign", "3 pictures"]
    draw_bars(groups, series, folder / "which-method.png", "unlabelled pictures", "% right", "five labels per class")
    draw_figures("figure3", Results(RESULTS), folder)
    draw_figures("semi", Results(RESULTS), research)


if __name__ == "__main__":
    for name, text in pages().items():
        (ROOT / name).write_text(text)
    draw(ROOT / "docs" / "images", ROOT / "research" / "images")
