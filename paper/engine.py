"""The engine of all tables: train, extract, evaluate, write JSON. Valid results on file are not computed again.

    OUT/NAME/                                a training run
    OUT/NAME.safetensors, NAME-train.json    its network in half precision, and the record of its training
    OUT/features/NAME-….safetensors          features of the novel classes' pictures
    RESULTS/NAME/train.json, novel-1shot.json, …

A network under --weights is used as it is. A result is valid if it has the same weights, pictures, protocol and method
with the same arguments, and enough episodes. A file with results of anything else, or of more episodes, is never
overwritten: that part of the table is refused.
"""

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import torch

from paper.networks import MissingNetwork, Network, Work, folder_of, network
from paper.plan import SLOW_EPISODES, Run, Table, Task, Trial, unique
from paper.rivals import planned_method
from paper.stored_results import is_of_today, read
from protoadapt.core.episodes import draw
from protoadapt.core.errors import UserError
from protoadapt.core.evaluate import compare
from protoadapt.core.features import Features, base_statistics, load_features, save_features, stated
from protoadapt.core.files import write_json
from protoadapt.core.projection import episode_paths
from protoadapt.core.protocol import NEED_BASE_MEAN, Protocol
from protoadapt.core.results import document_of
from protoadapt.training.datasets import load_images
from protoadapt.training.datasets.registry import search
from protoadapt.vision import networks
from protoadapt.vision.extraction import extract_features

SEED = 0


def reproduce(table: Table, work: Work) -> dict[str, str]:
    """Makes what a table needs, as far as possible. Returns the missing result files, each with the reason."""
    missing: dict[str, str] = {}
    parts = table.only(work.selects).parts
    if not parts:
        names = unique(part.files[0].removesuffix(".json") for part in table.parts)
        raise UserError(f"no result of this table is called {' or '.join(work.only)}: the first is {names[0]}")
    if not work.only_evaluate and not any(_can_begin(part, work) for part in parts):
        places = " or ".join(repr(str(place)) for places in work.data.values() for place in places)
        wanted = ", ".join(unique(part.dataset for part in parts))
        raise UserError(
            f"the pictures of this table ({wanted}) are not {f'in {places}' if places else 'there'}: give --data DIR "
            f"with some of them; protoadapt data NAME --data DIR says what is missing and where to download it"
        )
    nets: dict[Run, Network | UserError] = {}
    for part in sorted(parts, key=lambda part: part.views):  # quick ones first
        if part.run not in nets:
            try:
                nets[part.run] = network(part.run, work)
            except UserError as error:
                nets[part.run] = error
        try:
            make = _run_trial if isinstance(part, Trial) else _run_task
            work.say(make(part, nets[part.run], work))  # type: ignore[arg-type]
        except UserError as error:
            missing |= {file: str(error) for file in part.files if work.selects(file)}
            work.say(f"{', '.join(part.files)}: not measured ({error})")
    return missing


def _can_begin(part: Trial | Task, work: Work) -> bool:
    """Whether any results, features or pictures of the part exist."""
    trial = part.trial if isinstance(part, Task) else part
    made = [work.out / "features" / trial.features, *(work.results / file for file in part.files)]
    if part.dataset == "glyphs" or any(file.is_file() for file in made):
        return True
    try:
        place = folder_of(trial.dataset, trial.crop, work, trial.copy)
        return place is not None and search(trial.dataset, trial.split, place, trial.crop) is not None
    except UserError:  # pictures exist but are not valid: the part itself will say why
        return True


# Features: from a file, or extracted.


def features_of(trial: Trial, net: Network, work: Work, base: bool) -> Features:
    """The features of a trial's pictures, with the statistics of the base classes where they are needed."""
    file, wanted = work.out / "features" / trial.features, _identity(trial, net.weights, work)
    table = load_features(file) if file.is_file() else None
    if table is None or any(stated(table.metadata, key) != value for key, value in wanted.items()):
        table = _joined(trial, net, work) if trial.run.parts else _extracted(trial, net, work)
        save_features(file, table)
    if base and table.base_covariance is None:
        others = features_of(trial.base_classes, net, work, False)
        table = replace(table, **base_statistics(others.features, others.labels))
        save_features(file, table)
    return table


def _extracted(trial: Trial, net: Network, work: Work) -> Features:
    """The features of one network."""
    data = folder_of(trial.dataset, trial.crop, work, trial.copy)
    backbone, about = networks.load(net.path, work.device)
    options: dict[str, Any] = {"size": about["size"], "crop": trial.crop, "per_class": work.per_class}
    images = load_images(trial.dataset, trial.split, data, **options, cache_dir=work.cache)
    views: dict[str, Any] = {"views": trial.views, "pooling": trial.pooling}
    what = f"views of {trial.dataset}, {trial.split} classes, by {trial.run.name}"
    with work.progress(what, len(images) * trial.views) as done:
        table = extract_features(backbone, about, images, **views, on_progress=done)
    return replace(table, metadata={**table.metadata, **_identity(trial, None, work)})


def _joined(trial: Trial, net: Network, work: Work) -> Features:
    """The features of a trial whose network has several parts."""
    parts = [replace(trial, run=part) for part in trial.run.parts]
    return side_by_side([features_of(part, network(part.run, work), work, False) for part in parts], net.weights)


def side_by_side(tables: Sequence[Features], weights: str) -> Features:
    """The unit features of several networks on the same pictures, as `vision.networks.joined` has them."""
    rows = torch.cat([torch.nn.functional.normalize(table.features.float()) for table in tables], 1)
    backbones = "+".join(table.metadata["backbone"] for table in tables)
    return replace(tables[0], features=rows, metadata={**tables[0].metadata, "weights": weights, "backbone": backbones})


def _identity(trial: Trial, weights: str | None, work: Work) -> dict[str, Any]:
    """The metadata that features of a trial have."""
    own = {"weights": weights} if weights else {}
    own |= {"copy": trial.copy} if trial.copy else {}
    pictures = {"dataset": trial.dataset, "split": trial.split, "crop": trial.crop, "views": trial.views}
    return {**own, **pictures, "pooling": trial.pooling, "per_class": work.per_class}


# Trials: from result files, or evaluated.


def _run_trial(trial: Trial, net: Network | UserError, work: Work) -> str:
    """Makes those files of the trial that are missing; returns a line on what they hold."""
    weights = _weights(net)
    asked = [
        shot for shot in trial.shots if work.selects(trial.file(shot)) and _missing_methods(trial, shot, weights, work)
    ]
    if not asked:
        return f"{trial.run.name}/{trial.stem}: already there"
    if isinstance(net, UserError):
        raise net
    for shot in asked:
        _check_no_loss(trial, shot, net.weights, work)
    table = features_of(trial, net, work, any(map(_needs_base, trial.specs)))
    return "\n".join(_evaluated(trial, shot, table, net, work) for shot in asked)


def _weights(net: Network | UserError) -> str | None:
    """The hash of its weights; None, which any result fits, where there is no network and none may be trained."""
    if isinstance(net, UserError) and not isinstance(net, MissingNetwork):
        raise net
    return net.weights if isinstance(net, Network) else None


def _needs_base(spec: str) -> bool:
    """Whether a method uses the base classes' statistics."""
    named = planned_method(spec)
    return named.name in NEED_BASE_MEAN or named.name.startswith("whiten")


def _evaluated(trial: Trial, shot: int, table: Features, net: Network, work: Work) -> str:
    """Evaluates the missing methods; the file is written after each group of them."""
    about, file = table.about, work.results / trial.file(shot)
    of_file = ("reference", "training")
    valid = _valid_results(trial, shot, net.weights, work)
    kept = {r["label"]: {key: value for key, value in r.items() if key not in of_file} for r in valid}
    left = _missing_methods(trial, shot, net.weights, work)
    groups = [[s for s in left if s in trial.methods], *([s] for s in left if s in trial.slow)]
    order = _labels(trial.specs)
    training = {key: net.record.get(key) for key in ("run", "config", "best", "seconds", "hardware", "commit")}
    for specs in filter(None, groups):
        slow = specs[0] in trial.slow
        count = _episodes(trial, planned_method(specs[0]).label, work)
        words = specs[0] if slow else f"{len(specs)} methods"
        options: dict[str, Any] = {"episodes": count, "seed": SEED, "device": work.device, **table.base}
        methods, protocol = [*map(planned_method, specs)], trial.protocol(shot)
        with work.progress(f"episodes of {trial.file(shot)}, {words}", count) as done:
            results = compare(table.features, table.labels, methods, protocol, **options, on_progress=done)
        kept |= {r.method.label: r.to_json(**about) for r in results}
        records = sorted(kept.values(), key=lambda r: order.index(r["label"]) if r["label"] in order else len(order))
        write_json(file, document_of(records, reference=records[0]["label"], training=training))
    numbers = "  ".join(f"{kept[label]['label']} {kept[label]['accuracy']:.2f}" for label in order[:7])
    return f"{trial.file(shot)}: {numbers}"


def _episodes(trial: Trial, label: str, work: Work) -> int:
    count = work.episodes or trial.episodes
    return min(count, SLOW_EPISODES) if label in _labels(trial.slow) else count


def _labels(specs: Sequence[str]) -> list[str]:
    return [planned_method(spec).label for spec in specs]


def _missing_methods(trial: Trial, shot: int, weights: str | None, work: Work) -> list[str]:
    there = {result["label"] for result in _valid_results(trial, shot, weights, work)}
    return [spec for spec in trial.specs if planned_method(spec).label not in there]


def _valid_results(trial: Trial, shot: int, weights: str | None, work: Work) -> list[dict[str, Any]]:
    """Records on file with the same weights, pictures, protocol and arguments, and enough episodes; and those of
    methods that are not asked for."""
    asked = _labels(trial.specs)

    def holds(r: dict[str, Any]) -> bool:
        fits = is_of_today(r) and r["episodes"] >= _episodes(trial, r["label"], work)
        return (fits or r["label"] not in asked) and not _differences(r, trial, shot, weights, work)

    return [r for r in read(work.results / trial.file(shot)).get("results", []) if holds(r)]


def _differences(r: dict[str, Any], trial: Trial, shot: int, weights: str | None, work: Work) -> list[str]:
    """What a record was measured on, where that differs from the trial."""
    wanted = _identity(trial, weights, work)
    there = {key: stated(r["features"], key) for key in wanted}
    apart = [f"{key} {there[key]}" for key in wanted if there[key] != wanted[key]]
    return apart + ([] if (r["protocol"], r["seed"]) == (asdict(trial.protocol(shot)), SEED) else ["other episodes"])


def _check_no_loss(trial: Trial, shot: int, weights: str, work: Work) -> None:
    """Raises UserError where writing the file would lose records of something else, or of more episodes."""
    file, right = work.results / trial.file(shot), _valid_results(trial, shot, weights, work)
    again = {label: _episodes(trial, label, work) for label in _labels(trial.specs)}
    for r in read(file).get("results", []):
        apart = _differences(r, trial, shot, weights, work)
        if (apart or again.get(r["label"], 0) < r["episodes"]) and r not in right:
            content = f"{', '.join(apart) or r['label']} ({r['episodes']:,} episodes)"
            raise UserError(f"{str(file)!r} holds results of {content}: give another --results")


def _run_task(task: Task, net: Network | UserError, work: Work) -> str:
    """Writes a task's rows and prototypes, projected to the plane."""
    name = task.files[0]
    file = work.results / name
    weights, there = _weights(net), read(file).get("weights")
    if there and weights in (there, None):
        return f"{name}: already there"
    if isinstance(net, UserError):
        raise net
    if there:
        raise UserError(f"{str(file)!r} is a picture of weights {there}: give another --results")
    table = features_of(task.trial, net, work, base=False)
    drawn = next(draw(table.labels.numpy(), Protocol(way=task.way), task.seed, 1))
    paths = episode_paths(drawn.episodes(table.features, task.way), drawn.query_labels[0], task.plane_seed)
    if paths is None:
        raise UserError(f"all features of a task of {task.trial.features} are equal: train the network again")
    names = [table.metadata["class_names"][int(table.labels[row])] for row in drawn.support[0]]
    words = f"{task.way}-way 1-shot, 15 queries per class, {task.dataset} novel classes"
    about = {"protocol": words, "seed": task.seed, "weights": net.weights, "features": table.hash}
    write_json(file, {**about, **paths, "class_names": names})
    return f"{name}: a {task.way}-way task in the plane"
