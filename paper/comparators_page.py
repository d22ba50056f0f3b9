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
    "hct_r": "HCT_R + CIPA",
}
"""Recipe → the method's name in the paper's tables."""
DATASETS = {"cifar-fs": "CIFAR-FS", "fc100": "FC100", "mini-imagenet": "mini-ImageNet", "cub": "CUB"}
NOT_TRAINED = (
    "Not trained here: TADAM, whose backbone is conditioned on each episode, so that its features cannot be extracted "
    "before the episode is known; TEAM, which has no public code."
)


def comparators_section(folder: Path) -> list[str]:
    """Paragraphs of the results page; none where nothing is measured."""
    files = sorted(folder.glob("comparators-*.json"))
    if not files:
        return []
    parts = [
        "## The paper's comparators, trained here",
        "`python -m benchmarks.comparators --data DIR --json results/comparators-cifar-fs.json`. One backbone "
        "(ResNet-12), one loop and the same episodes for all; what is learned is each paper's own "
        "([training](training.md)). “Own” is the system's own inference; ProtoNet, CIPA and BAPA answer on its "
        "features. Differences are paired: own inference minus HCT_R with CIPA. Quoted numbers are those of the "
        "paper's tables, with the backbone where it is another.",
    ]
    for file in files:
        document = json.loads(file.read_text())
        dataset = DATASETS.get(document["dataset"], document["dataset"])
        parts += [f"### {dataset}", _table(document, dataset), f"Trained on {document['hardware']}."]
    return [*parts, NOT_TRAINED]


def _table(document: dict[str, Any], dataset: str) -> str:
    header = ["system"]
    for shot in (1, 5):
        header += [f"{shot}-shot: quoted", "own", "ProtoNet", "CIPA", "BAPA", "own − (HCT_R + CIPA)"]
    rows = []
    for name, system in document["systems"].items():
        cells = [name]
        for number, shot in enumerate(("1", "5")):
            found = system["results"][shot]
            own = next(
                (label for label in found if label not in ("protonet", "cipa", "bapa")), OWN.get(system["recipe"])
            )
            cells += [_quoted(system["recipe"], dataset, number), _cell(found.get(own or ""))]
            cells += [_cell(found[label]) for label in ("protonet", "cipa", "bapa")]
            cells.append(_difference(found.get(own or "")))
        rows.append([*cells, _seconds(system["training"])])
    return markdown([*header, "training"], rows)


OWN = {"hct_r": "cipa", "protonet": "protonet", "cc_rot": "protonet", "classifier_baseline": "protonet"}
"""Inference of systems without a head of their own."""


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


def _seconds(training: dict[str, Any]) -> str:
    return f"{training['seconds']:.0f} s" if training.get("seconds") else ""
