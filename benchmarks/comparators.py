"""The systems that the paper compares with, on one backbone, one loop and the same episodes, beside HCT_R with CIPA.

    python -m benchmarks.comparators --data DIR --json results/comparators-cifar-fs.json
    python -m benchmarks.comparators --data DIR --systems 'feat;epnet'       several processes may run at a time
    python -m benchmarks.comparators --systems '' --json FILE                merge what they measured

Each system is trained by its recipe and the settings below unless its run is finished, its features are extracted, and
novel classes are answered by its own head and by ProtoNet and CIPA on the same features and episodes. --start
NAME=PATH names a run or model file that is there. A system's results, with the right answers of every episode, are one
file in the folder of --parts; --json merges all of them into a small file with paired differences, beside the systems
that it has.
"""

import argparse
import json
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from benchmarks import measure
from protoadapt.cli import main as run_command
from protoadapt.core.errors import UserError, no_such
from protoadapt.core.evaluate import compare
from protoadapt.core.files import write_json
from protoadapt.core.heads import as_method
from protoadapt.core.methods import Method
from protoadapt.core.protocol import Protocol
from protoadapt.core.results import class_interval, document_of, paired_difference, read_results
from protoadapt.training import TrainConfig, load_splits, train
from protoadapt.training.datasets import load_images
from protoadapt.training.recipes import recipe
from protoadapt.vision import networks
from protoadapt.vision.extraction import extract_features
from protoadapt.vision.networks import film, model_files
from protoadapt.vision.networks.head_files import TrainedHead, load_head

METHODS = ("protonet", "protonet(metric=euclid)", "cipa")
SHOTS = (1, 5)
SLOW = {"deepemd": 600, "gnn": 600, "snail": 600, "tadam": 600, "relation": 2000, "metaopt_svm": 2000}
"""Episodes of heads that take long, the first of all; others as many as asked for."""


class System(NamedTuple):
    recipe: str
    start: str = ""  # the system whose network it starts from
    settings: tuple[str, ...] = ()  # in place of the recipe's


# One budget: 4,800 training episodes of 100 pictures. All systems start from the same classifier, as the authors of
# FEAT, EPNet, DeepEMD and LEO do; the recipes of the others train from scratch, which takes longer to get as far.
BUDGET = ("epochs=24", "episodes=200", "episode_batch=4", "validate_every=6", "checkpoint_every=6")
SELDOM = (*BUDGET, "validate_every=12", "validation_episodes=100")
GENTLE = (*BUDGET, "lr=0.0001", "head_factor=10")
OPTIMISED = ("epochs=15", "episodes=320", "lr=0.02", "warmup=0", "validate_every=5", "checkpoint_every=5")
CLASSIFIER = "classifier_baseline"
SYSTEMS = {
    "hct_r": System("hct_r"),
    CLASSIFIER: System(CLASSIFIER, settings=("epochs=24",)),
    "protonet": System("protonet", CLASSIFIER, (*BUDGET, "lr=0.0001", "head_factor=30")),  # for its temperature
    "protonet, 1-shot": System("protonet", CLASSIFIER, (*BUDGET, "lr=0.0001", "head_factor=30", "shot=1")),
    "protonet, 20-way": System(
        "protonet", CLASSIFIER, (*BUDGET, "lr=0.0001", "head_factor=30", "way=20", "query=5", "episode_batch=2")
    ),  # harder episodes, as its authors advise: how much of the miss at 1-shot do they mend?
    "matching_net": System("matching_net", CLASSIFIER, (*BUDGET, "lr=0.0001")),
    "matching_net_fce": System("matching_net_fce", CLASSIFIER, GENTLE),
    "relation_net": System("relation_net", CLASSIFIER, GENTLE),
    "metaoptnet": System("metaoptnet", CLASSIFIER, OPTIMISED),
    "metaoptnet_svm": System("metaoptnet_svm", CLASSIFIER, (*OPTIMISED, "epochs=12", "validate_every=4")),
    "metaoptnet_svm, 5-shot": System(
        "metaoptnet_svm", CLASSIFIER, (*OPTIMISED, "epochs=12", "validate_every=4", "shot=5")
    ),  # how much does the shot of its training episodes explain?
    "feat": System("feat", CLASSIFIER, BUDGET),
    "feat, 1-shot": System("feat", CLASSIFIER, (*BUDGET, "shot=1", "phases.0.feat_contrast=0.01")),
    "epnet": System("epnet", CLASSIFIER, BUDGET),
    "tpn": System("tpn", CLASSIFIER, GENTLE),
    "deepemd": System("deepemd", CLASSIFIER, SELDOM),
    "gnn": System("gnn", CLASSIFIER, GENTLE),
    "snail": System("snail", CLASSIFIER, (*BUDGET, "lr=0.0001", "head_factor=3")),
    "snail, 1-shot": System("snail", CLASSIFIER, (*BUDGET, "lr=0.0001", "head_factor=3", "shot=1")),
    "tadam": System(
        "tadam", CLASSIFIER, (*SELDOM, "lr=0.01", "warmup=0", "head_factor=10", "episode_batch=2")
    ),  # runs its network again for each validation episode
    "leo": System("leo", CLASSIFIER, ("validate_every=10", "checkpoint_every=10")),
    "cc_rot": System("cc_rot", settings=("epochs=10",)),
    "protonet from hct_r": System("protonet", "hct_r", (*BUDGET, "lr=0.0001", "head_factor=30")),
    "feat from hct_r": System("feat", "hct_r", BUDGET),
    "metaoptnet from hct_r": System("metaoptnet", "hct_r", OPTIMISED),
    "epnet from hct_r": System("epnet", "hct_r", BUDGET),
    "deepemd from hct_r": System("deepemd", "hct_r", SELDOM),
}
REFERENCE = ("hct_r", "cipa")
"""System and method that all others are compared with, episode by episode."""
ORIGIN = ("dataset", "versions", "hardware", "commit")


def trained(name: str, options: argparse.Namespace, places: dict[str, Path]) -> tuple[Path, dict[str, Any]]:
    """The run of a system and the record of its training; trained first where it is not finished."""
    if name in places:
        beside = places[name].with_name(f"{places[name].stem}-train.json")
        return places[name], json.loads(beside.read_text()) if beside.is_file() else {}
    out = options.runs / file_name(options.dataset, name)
    system = SYSTEMS[name]
    settings = [f"dataset={options.dataset}", f"seed={options.seed}", *system.settings, *options.set]
    if system.start:
        settings.append(f"init_from={trained(system.start, options, places)[0]}")
    if not (out / "result.json").is_file():
        config = recipe(system.recipe, settings)
        base, val = load_splits(config, options.data, per_class=options.per_class)
        resume = any((out / "checkpoints").glob("step-*"))
        accelerator = "cuda" if options.device == "cuda" else "cpu"
        train(config, base, val, out, resume=resume, accelerator=accelerator)
    return out, json.loads((out / "result.json").read_text())


def measured(run: Path, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Records of the methods, and of the head where there is one, at every shot."""
    network, metadata = networks.load(run, options.device)
    head = load_head(run) if "head" in metadata else None
    found = []
    images = load_images(options.dataset, "novel", options.data, size=metadata["size"], per_class=options.per_class)
    table = extract_features(network, metadata, images, maps=head is not None and head.module.places)
    for shot in SHOTS:
        on = {"protocol": Protocol(shot=shot), "device": options.device}
        results = compare(table.features, table.labels, METHODS, **on, episodes=options.episodes)
        if head and not (head.module.fixed_shot and head.module.shape.shot != shot):
            head.module.to(options.device)
            rows, method = table.maps if head.module.places else table.features, head.method
            if head.module.conditions:
                rows, method = from_pictures(head, images, options.device)
            count = min(options.episodes, SLOW.get(head.name, options.episodes))
            results += compare(rows, table.labels, [method], **on, episodes=count)
        found += [one.to_json(split="novel", hash=table.hash) for one in results]
    return found


def from_pictures(head: TrainedHead, images: Any, device: str) -> tuple[Tensor, Method]:
    """The numbers of the pictures as rows, and the head that conditions its network as a method on them."""
    network, metadata = model_files.load_model(head.path)
    network.to(device).eval()
    mean, std = (255 * torch.tensor(metadata[key], device=device).view(3, 1, 1) for key in ("mean", "std"))
    embed_again = film.embedder(network, lambda pixels: (pixels - mean) / std, images.pixels)
    method = Method(head.name, as_method(head.name, head.module, embed_again), {})
    return torch.arange(float(len(images)))[:, None], method


def cell(record: dict[str, Any]) -> str:
    """What was measured, in words: "novel 1-shot"."""
    return f"{record['features']['split']} {record['protocol']['shot']}-shot"


def merged(parts: list[dict[str, Any]], before: dict[str, Any] | None = None) -> dict[str, Any]:
    """The small document: accuracy, intervals and paired difference to the reference of every system, cell and method.

    The first episodes are the same however many there are, so slow heads are paired as well. Systems of an earlier
    document stay as they are unless they have a part of their own; a system of other origin than the document says so.
    """
    records = {part["system"]: read_results(part) for part in parts}
    reference = {cell(r): r for r in records.get(REFERENCE[0], []) if r["label"] == REFERENCE[1]}
    systems: dict[str, Any] = dict(before["systems"]) if before else {}
    first = before or parts[0]
    common = {key: first[key] for key in ORIGIN}
    for part in parts:
        results: dict[str, Any] = {}
        for record in records[part["system"]]:
            entry = {"accuracy": record["accuracy"], "ci95": record["ci95"], "episodes": record["episodes"]}
            entry["ci95_classes"] = None if (wide := class_interval(record)) is None else round(wide, 4)
            if (against := reference.get(cell(record))) is not None:
                entry["minus_reference"] = [round(x, 4) for x in paired_difference(record, against)]
            results.setdefault(cell(record), {})[record["label"]] = entry
        about = {key: part[key] for key in ("recipe", "start", "training")}
        about |= {"note": part["note"]} if part.get("note") else {}
        about |= {key: part[key] for key in ORIGIN if key in part and part[key] != common[key]}
        systems[part["system"]] = {**about, "results": results}
    return {
        **{"schema": "protoadapt-benchmark/1", "benchmark": "comparators", "reference": REFERENCE, **common},
        "systems": dict(sorted(systems.items(), key=lambda item: [*SYSTEMS].index(item[0]))),
    }


def merged_files(file: Path, folder: Path, dataset: str) -> dict[str, Any]:
    """The document for a file: what it holds and the parts of a dataset in a folder."""
    parts = [json.loads(part.read_text()) for part in sorted(folder.glob(f"{dataset}-*.json"))]
    if not parts:
        raise UserError(
            f"there is no part {dataset}-*.json in {str(folder)!r}: measure --systems, or give other --parts"
        )
    return merged(parts, json.loads(file.read_text()) if file.is_file() else None)


def training_record(result: dict[str, Any]) -> dict[str, Any]:
    """What is kept of a training run: its time, its best epoch and the settings that are not default."""
    kept = {key: round(result[key], 1) for key in ("seconds", "images", "images_per_second") if key in result}
    best = result.get("best") or {}
    plain = TrainConfig().to_dict() | {"init_from": result.get("config", {}).get("init_from")}  # `start` names it
    config = {key: value for key, value in result.get("config", {}).items() if plain.get(key) != value}
    shown = {key: round(best[key], 2) for key in ("epoch", "score") if key in best}
    return kept | {"best": shown, "config": config}


def file_name(dataset: str, system: str) -> str:
    return f"{dataset}-{system.replace(', ', '-').replace(' ', '-')}"


def main() -> None:
    parser = measure.arguments(__doc__, dataset="cifar-fs", seed=0, episodes=10_000)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--parts", type=Path, default=Path("runs/comparators"), help="one result file per system")
    parser.add_argument("--systems", default=";".join(SYSTEMS), help="names separated by semicolons")
    parser.add_argument("--start", action="append", default=[], metavar="NAME=PATH", help="a trained network to use")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="setting of every recipe")
    parser.add_argument("--per-class", type=int, help="use only so many pictures per class, to try it")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args()
    places = {name: Path(path) for name, _, path in (word.partition("=") for word in options.start)}
    systems = [name for name in options.systems.split(";") if name]
    if unknown := [name for name in systems if name not in SYSTEMS]:
        raise no_such("system", unknown[0], SYSTEMS)
    for name in systems:
        part = options.parts / f"{file_name(options.dataset, name)}.json"
        if part.is_file():
            continue
        run, training = trained(name, options, places)
        records = measured(run, options)
        about = {"system": name, **SYSTEMS[name]._asdict(), "dataset": options.dataset}
        write_json(part, document_of(records, **about, training=training_record(training)))
        print(name, *(f"{cell(r)} {r['label']} {r['accuracy']:.2f}" for r in records), sep="  ", flush=True)
    if options.json:
        write_json(options.json, merged_files(options.json, options.parts, options.dataset))


if __name__ == "__main__":
    run_command(main)
