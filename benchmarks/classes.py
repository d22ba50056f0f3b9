"""Uncertainty over classes (jackknife) of published results, beside that over episodes.

    python benchmarks/classes.py --features runs/features --json results/classes.json

DIR of --features holds files as `python -m paper` writes them, and mini-imagenet-val.safetensors and
mini-imagenet-3-val.safetensors of `extract --split val`. 10,000 episodes, the same for both sides of a difference.
"""

import argparse
import json
from pathlib import Path

from protoadapt import Protocol, load_features
from protoadapt.core.evaluate import evaluate
from protoadapt.core.files import write_json
from protoadapt.core.provenance import commit, hardware, versions

MINI, CUB = "mini-imagenet-none-views1", "cub-box-views1"
SETS = {
    "CIFAR-FS": "cifar-fs-cifar-fs-none-views1",
    "FC100": "fc100-fc100-none-views1",
    "mini-ImageNet": f"mini-imagenet-{MINI}",
    "CUB, boxes": f"cub-box-{CUB}",
    "mini-ImageNet → CUB, boxes": f"mini-imagenet-{CUB}",
}
METHODS = {
    "CIPA − ProtoNet": ("cipa", "protonet"),
    "PT+MAP − CIPA": ("pt_map", "cipa"),
    "BAPA − CIPA": ("bapa", "cipa"),
}
NETWORKS = {
    "HCT_R − classifier baseline": ("hct_r", "classifier_baseline"),
    "HCT_R − S2M2_R": ("hct_r", "s2m2_r"),
    "HCT − Manifold Mixup, α = 2": ("hct-alpha2", "manifold_mixup-alpha2"),
}
THIRD = "third network − second"

# What is compared, on which classes: the features and method of either side. The second side may be nothing.
PLAN: list[tuple[str, str, tuple[str, str], tuple[str, str] | None]] = [
    *(("CIPA", words, (file, "cipa"), None) for words, file in SETS.items()),
    *((what, words, (file, one), (file, two)) for what, (one, two) in METHODS.items() for words, file in SETS.items()),
    *(
        (what, words, (f"{data}-{one}-{seen}", "cipa"), (f"{data}-{two}-{seen}", "cipa"))
        for what, (one, two) in NETWORKS.items()
        for words, data, seen in [("mini-ImageNet", "mini-imagenet", MINI), ("CUB, boxes", "cub-box", CUB)]
    ),
    (THIRD, "mini-ImageNet, validation", ("mini-imagenet-3-val", "cipa"), ("mini-imagenet-val", "cipa")),
    (THIRD, "mini-ImageNet", (f"mini-imagenet-3-{MINI}", "cipa"), (f"mini-imagenet-{MINI}", "cipa")),
    (THIRD, "mini-ImageNet → CUB, boxes", (f"mini-imagenet-3-{CUB}", "cipa"), (f"mini-imagenet-{CUB}", "cipa")),
]
EPISODES, SEED = 10_000, 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--features", type=Path, required=True)
    parser.add_argument("--json", type=Path, required=True)
    asked = parser.parse_args()
    known: dict = {}

    def measured(file: str, method: str, shot: int):
        if (file, method, shot) not in known:
            table = load_features(asked.features / f"{file}.safetensors")
            found = evaluate(table.features, table.labels, method, Protocol(shot=shot), episodes=EPISODES, seed=SEED)
            known[file, method, shot] = found, table.metadata["weights"]
        return known[file, method, shot]

    rows = []
    for what, classes, one, two in PLAN:
        for shot in (1, 5):
            first, *weights = measured(*one, shot)
            mean, ci95, over_classes = first.accuracy, first.ci95, first.ci95_classes
            if two:
                second, *others = measured(*two, shot)
                weights += others
                (mean, ci95), over_classes = first.minus(second), first.minus_classes(second)
            record = {
                "what": what,
                "classes": classes,
                "number": len(first.class_episodes),
                "shot": shot,
                "weights": weights,
            }
            rows.append({**record, "mean": mean, "ci95": ci95, "ci95_classes": over_classes})
            print(json.dumps(rows[-1], ensure_ascii=False), flush=True)
    protocol = f"5-way, 15 queries a class, {EPISODES:,} episodes"
    record = {"schema": "protoadapt-classes/1", "protocol": protocol, "seed": SEED, "commit": commit()}
    write_json(asked.json, {**record, "versions": versions(), "hardware": hardware(), "rows": rows})


if __name__ == "__main__":
    main()
