"""The systems of the paper's Tables 1 to 4: quoted, and trained here on one backbone, loop and protocol."""

import json
from pathlib import Path
from typing import Any

from paper.quoted import LITERATURE
from protoadapt.report.tables import markdown

NAMES = {
    "protonet": "ProtoNet",
    "metaoptnet_svm": "MetaOptNet-SVM",
    "snail": "SNAIL",
    "deepemd": "DeepEMD",
    "leo": "LEO",
    "cc_rot": "CC+rot",
    "tpn": "TPN",
    "feat": "FEAT",
    "epnet": "EPNet",
    "tadam": "TADAM",
    "matching_net": "Matching Networks + FT",
    "relation_net": "Relation Networks + FT",
    "gnn": "GNN + FT",
    "hct_r": "HCT_R + CIPA",
}
"""Recipe → the method's name in the paper's tables."""
DATASETS = {"cifar-fs": "CIFAR-FS", "fc100": "FC100", "mini-imagenet": "mini-ImageNet", "cub": "CUB"}
FEATURES = ("protonet", "cipa")
EUCLID = "protonet(metric=euclid)"
OWN = {"hct_r": "cipa", "protonet": EUCLID, "cc_rot": "protonet", "classifier_baseline": "protonet"}
"""Inference of systems without a head of their own."""


def read_comparators(folder: Path) -> list[dict[str, Any]]:
    """The merged results of `benchmarks.comparators`, one document per dataset."""
    return [json.loads(file.read_text()) for file in sorted(folder.glob("comparators-*.json"))]


def comparators_section(folder: Path) -> list[str]:
    """Paragraphs of the results page; none where nothing is measured."""
    documents = read_comparators(folder)
    if not documents:
        return []
    parts = [
        "## The paper's comparators, trained here",
        "`python -m benchmarks.comparators --data DIR --json results/comparators-cifar-fs.json`. One backbone "
        "(ResNet-12), one loop, one short budget (4,800 training episodes, from a classifier of 24 epochs) and the "
        "same episodes for all; what is learned is each paper's own ([training](../docs/training.md)). “Own” is the "
        "system's own inference; ProtoNet and CIPA answer on its features. Differences are paired: own inference, and "
        "CIPA on these features, minus HCT_R with CIPA; “from hct_r” says whether episodes add anything to it "
        "(EPNet's: 10,000). Quoted numbers are those of the paper's tables, with the backbone where it is another. "
        "Slow heads answer the first 600 or 2,000 episodes, and are paired on those.",
    ]
    for document in documents:
        dataset = DATASETS.get(document["dataset"], document["dataset"])
        parts.append(f"### {dataset}")
        for shot in (1, 5):
            parts += [f"{shot}-shot:", systems_table(document, dataset, shot)]
        parts += [
            f"Trained on {document['hardware']}, several at a time: do not compare the seconds.",
            *notes(document),
        ]
    return parts


def systems_table(document: dict[str, Any], dataset: str, shot: int) -> str:
    """One line per system: quoted, own inference and methods on its features, on novel classes."""
    header = ["system", "starts from", "quoted", "own", "ProtoNet", "CIPA"]
    header += ["own − (HCT_R + CIPA)", "CIPA − (HCT_R + CIPA)", "training"]
    rows = []
    for name, system in document["systems"].items():
        found = system["results"][f"novel {shot}-shot"]
        own = found.get(own_label(system, found))
        cells = [name, system["start"] or "random weights", _quoted(system["recipe"], dataset, (1, 5).index(shot))]
        cells += [
            _cell(own),
            *(_cell(found.get(label)) for label in FEATURES),
            *map(_difference, (own, found.get("cipa"))),
        ]
        seconds = system["training"].get("seconds")
        rows.append([*cells, f"{seconds:.0f} s" if seconds else ""])
    return markdown(header, rows)


def notes(document: dict[str, Any]) -> list[str]:
    """What is said of the origin of some systems, with their names; nothing where nothing is."""
    by_note: dict[str, list[str]] = {}
    for name, system in document["systems"].items():
        if system.get("note"):
            by_note.setdefault(system["note"], []).append(f"“{name}”")
    return [f"{', '.join(names)}: {note}." for note, names in by_note.items()]


def here(documents: list[dict[str, Any]], dataset: str, method: str) -> list[str]:
    """Accuracies of a row of the paper's tables as trained here at 1-shot and 5-shot; "" where it was not.

    Where a system was trained with episodes of that shot as well ("feat, 1-shot"), that form answers.
    """
    document = next((d for d in documents if DATASETS.get(d["dataset"]) == dataset), {"systems": {}})
    recipe = next((recipe for recipe, name in NAMES.items() if name == method), None)
    systems = {n: s for n, s in document["systems"].items() if s["recipe"] == recipe and s["start"] != "hct_r"}
    cells = []
    for shot in (1, 5):
        forms = sorted(systems, key=lambda name: not name.endswith(f", {shot}-shot"))
        found = [(systems[name], systems[name]["results"].get(f"novel {shot}-shot", {})) for name in forms]
        own = (results.get(own_label(system, results)) for system, results in found)
        cells.append(_cell(next(filter(None, own), None)))
    return cells


def own_label(system: dict[str, Any], found: dict[str, Any]) -> str:
    """The name of a system's own inference among its results."""
    head = next((label for label in found if label not in (*FEATURES, EUCLID)), "")
    own = OWN.get(system["recipe"], "")
    return head or (own if own in found else own.partition("(")[0])  # earlier results hold cosines alone


def _quoted(recipe: str, dataset: str, number: int) -> str:
    row = next((q for q in LITERATURE.get(dataset, ()) if q.method == NAMES.get(recipe)), None)
    if row is None or row.accuracy[number] is None:
        return ""
    return f"{row.accuracy[number]:.{row.digits}f}" + ("" if row.backbone == "ResNet-12" else f" ({row.backbone})")


def _cell(entry: dict[str, Any] | None) -> str:
    return "" if entry is None else f"{entry['accuracy']:.2f} ± {entry['ci95']:.2f}"


def _difference(entry: dict[str, Any] | None) -> str:
    if entry is None or "minus_reference" not in entry:
        return ""
    points, half = entry["minus_reference"]
    return f"{points:+.2f} ± {half:.2f}"
