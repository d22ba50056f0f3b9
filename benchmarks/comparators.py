"""The systems that the paper compares with, on one backbone, one loop and the same episodes, beside HCT_R with CIPA.

    python -m benchmarks.comparators --data DIR --runs runs --json results/comparators-cifar-fs.json
    python -m benchmarks.comparators --data DIR --runs runs --systems feat,epnet --set epochs=25 --json …

Each system is trained by its recipe unless its run is finished, its features are extracted, and novel classes are
answered by its own head and by protonet, CIPA and BAPA on the same features and episodes. Systems that start from a
trained network take classifier_baseline, or HCT_R where their name says so; --start NAME=PATH names a run or model file
that is there. The file is written after every system, and systems that it holds and that are not asked for are kept.
"""

import argparse
import json
from pathlib import Path
from typing import Any, NamedTuple

import torch

from protoadapt.core.evaluate import compare
from protoadapt.core.protocol import Protocol
from protoadapt.core.provenance import hardware, versions
from protoadapt.core.records import Result
from protoadapt.training import load_splits, train
from protoadapt.training.datasets import load
from protoadapt.training.recipes import earlier_run, recipe
from protoadapt.vision import embed, networks
from protoadapt.vision.networks.head_files import load_head

METHODS = ("protonet", "cipa", "bapa")
SHOTS = (1, 5)
SLOW = {"deepemd": 600, "gnn": 600, "snail": 600}
"""Episodes of heads that take long; others as many as asked for."""


class System(NamedTuple):
    recipe: str
    start: str = ""  # the system whose network it starts from


SYSTEMS = {
    "hct_r": System("hct_r"),
    "classifier_baseline": System("classifier_baseline"),
    "protonet": System("protonet"),
    "matching_net": System("matching_net"),
    "matching_net_fce": System("matching_net_fce"),
    "relation_net": System("relation_net"),
    "metaoptnet": System("metaoptnet"),
    "metaoptnet_svm": System("metaoptnet_svm"),
    "feat": System("feat", "classifier_baseline"),
    "epnet": System("epnet", "classifier_baseline"),
    "tpn": System("tpn"),
    "deepemd": System("deepemd", "classifier_baseline"),
    "gnn": System("gnn"),
    "snail": System("snail"),
    "leo": System("leo", "classifier_baseline"),
    "cc_rot": System("cc_rot"),
    "feat from hct_r": System("feat", "hct_r"),
    "metaoptnet from hct_r": System("metaoptnet", "hct_r"),
    "epnet from hct_r": System("epnet", "hct_r"),
}
REFERENCE = ("hct_r", "cipa")
"""System and method that all others are compared with, episode by episode."""


def trained(name: str, options: argparse.Namespace, places: dict[str, Path]) -> tuple[Path, dict[str, Any]]:
    """The run of a system and the record of its training; trained first where it is not finished."""
    if name in places:
        return places[name], {}
    out = options.runs / f"{options.dataset}-{name.replace(' ', '-')}"
    system, settings = SYSTEMS[name], [f"dataset={options.dataset}", f"seed={options.seed}", *options.set]
    if system.start:
        settings.append(f"init_from={trained(system.start, options, places)[0]}")
    if not (out / "result.json").is_file():
        config = recipe(system.recipe, settings)
        assert not system.start or config.init_from or earlier_run(system.recipe)
        base, val = load_splits(config, options.data)
        resume = any((out / "checkpoints").glob("step-*"))
        accelerator = "cuda" if options.device == "cuda" else "cpu"
        train(config, base, val, out, resume=resume, accelerator=accelerator)
    return out, json.loads((out / "result.json").read_text())


def measured(run: Path, options: argparse.Namespace) -> dict[int, list[Result]]:
    """Results of the methods, and of the head where there is one, by shot."""
    network, metadata = networks.load(run, options.device)
    head = load_head(run) if "head" in metadata else None
    images = load(options.dataset, options.split, options.data, size=metadata["size"])
    table = embed.extract(network, metadata, images, maps=head is not None and head.module.places)
    results = {}
    for shot in SHOTS:
        protocol, count = Protocol(shot=shot), options.episodes
        results[shot] = compare(table.features, table.labels, METHODS, protocol, episodes=count, device=options.device)
        if head is None or (head.module.fixed_shot and head.module.shape.shot != shot):
            continue
        rows = table.maps if head.module.places else table.features
        count, method = min(count, SLOW.get(head.name, count)), head.method
        head.module.to(options.device)
        results[shot] += compare(rows, table.labels, [method], protocol, episodes=count, device=options.device)  # type: ignore[arg-type]
    return results


def record(results: dict[int, list[Result]], reference: dict[int, list[Result]] | None) -> dict[str, Any]:
    """Accuracy, interval and episodes of each method by shot, and the paired difference to the reference."""
    found: dict[str, Any] = {}
    for shot, ones in results.items():
        for one in ones:
            entry: dict[str, Any] = {"accuracy": one.accuracy, "ci95": one.ci95, "episodes": len(one.correct)}
            against = next((r for r in (reference or {}).get(shot, []) if r.method.label == REFERENCE[1]), None)
            if against is not None and len(against.correct) == len(one.correct):
                entry["minus_reference"] = list(one.minus(against))
            found.setdefault(str(shot), {})[one.method.label] = entry
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=None)
    parser.add_argument("--dataset", default="cifar-fs")
    parser.add_argument("--split", default="novel")
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--systems", default=",".join(SYSTEMS), help="names separated by commas")
    parser.add_argument("--start", action="append", default=[], metavar="NAME=PATH", help="a trained network to use")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="setting of every recipe")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--episodes", type=int, default=10_000)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--json", type=Path, required=True)
    options = parser.parse_args()
    places = {name: Path(path) for name, _, path in (word.partition("=") for word in options.start)}
    document = json.loads(options.json.read_text()) if options.json.is_file() else {"systems": {}}
    reference = None
    if REFERENCE[0] in options.systems.split(",") or REFERENCE[0] in places:
        reference = measured(trained(REFERENCE[0], options, places)[0], options)
    for name in options.systems.split(","):
        run, training = trained(name, options, places)
        results = reference if name == REFERENCE[0] and reference else measured(run, options)
        kept = {key: training.get(key) for key in ("config", "best", "seconds", "images_per_second", "hardware")}
        document["systems"][name] = {**SYSTEMS[name]._asdict(), "training": kept, "results": record(results, reference)}
        document |= {"schema": "protoadapt-benchmark/1", "benchmark": "comparators", "dataset": options.dataset}
        document |= {"reference": REFERENCE, "versions": versions(), "hardware": hardware(torch.device(options.device))}
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(document))
        line = "  ".join(
            f"{label} {results[1][i].accuracy:.2f}"
            + (f" / {results[5][i].accuracy:.2f}" if i < len(results[5]) else "")
            for i, label in enumerate(one.method.label for one in results[1])
        )
        print(f"{name:<24}{line}", flush=True)


if __name__ == "__main__":
    main()
