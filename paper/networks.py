"""Folders and options of a run (`Work`), and the networks of a table: from files, or trained."""

import fnmatch
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from safetensors.torch import save as bytes_of
from torch import nn

from paper.plan import Run
from paper.stored_results import read
from protoadapt.core.errors import UserError, count
from protoadapt.core.files import write_json, write_synced, written_whole
from protoadapt.training import TrainConfig, checkpoint, load_splits, train
from protoadapt.training.datasets.registry import search
from protoadapt.training.loop import OnEvent
from protoadapt.training.recipes import recipe
from protoadapt.vision.networks import model_files
from protoadapt.vision.networks.joined import joined_weights

Progress = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]


@dataclass(frozen=True)
class Work:
    """Folders and options."""

    data: Mapping[str, Sequence[Path]]  # dataset → its folders; "": the folders of every other
    out: Path = Path("runs")
    results: Path = Path("results")
    cache: Path | None = None  # of decoded pictures; None: in the data folder
    weights: Path | None = None  # a folder of trained networks
    only_evaluate: bool = False
    only: Sequence[str] = ()  # patterns of result files, such as "cub-box/*"; none: all
    epochs: int | None = None  # of every training run
    episodes: int | None = None  # of every trial
    per_class: int | None = None  # pictures of each class, to try it out
    device: str = "cpu"
    say: Callable[[str], None] = print
    progress: Progress = lambda what, total: nullcontext(lambda done: None)
    watch: Callable[[], AbstractContextManager[OnEvent | None]] = nullcontext  # shows the events of training

    def selects(self, file: str) -> bool:
        """Whether a result file is among those to make."""
        patterns = [pattern.removesuffix(".json") for pattern in self.only]
        return not patterns or any(fnmatch.fnmatch(file.removesuffix(".json"), pattern) for pattern in patterns)


class Stopped(Exception):
    """Training was interrupted; the same command resumes it."""


class MissingNetwork(UserError):
    """The network does not exist and may not be trained."""


@dataclass(frozen=True)
class Network:
    path: Path
    weights: str  # hash
    record: dict[str, Any]  # of its training; empty where it was not kept


def weights_file(run: Run, work: Work) -> Path:
    """Where the weights of a run are, under --weights or --out; else where training will put them."""
    places = [folder / f"{run.name}.safetensors" for folder in (work.weights, work.out) if folder]
    return next((file for file in places if file.is_file()), places[-1])


def network(run: Run, work: Work) -> Network:
    """The network of a run, from a file or trained; several as one have a hash only."""
    if run.parts:
        return Network(Path(), joined_weights([network(part, work).weights for part in run.parts]), {})
    file = weights_file(run, work)
    if file.is_file():
        record = as_kept(read(file.with_name(f"{run.name}-train.json")))
        if file.parent == work.out and not work.only_evaluate:
            _check_config(run, record, work)
        return _with_record(Network(file, model_files.load_weights(file)[1]["weights"], record), run, work)
    if work.only_evaluate:
        where = " or ".join(str(f) for f in (work.weights, work.out) if f)
        raise MissingNetwork(f"there is no {file.name} in {where}: put it there, or train it (without --only-evaluate)")
    return _train_network(run, work)


def as_kept(record: dict[str, Any]) -> dict[str, Any]:
    """A record of training as it is kept: without what was logged of each epoch, and with the names of the networks
    that it began with or learned from, not their places on somebody's disk."""
    config = dict(record.get("config", {}))
    if config.get("init_from"):
        config["init_from"] = Path(config["init_from"]).name
    if "phases" in config:
        config["phases"] = [
            phase | ({"teacher": Path(phase["teacher"]).name} if phase.get("teacher") else {})
            for phase in config["phases"]
        ]
    kept = {key: value for key, value in record.items() if key != "history"}
    return kept | ({"config": config} if config else {})


def _train_network(run: Run, work: Work) -> Network:
    """Trains a network. Its record is written first, so that no network is without one."""
    _check_no_results(run, work)
    file, record = work.out / f"{run.name}.safetensors", as_kept(_train(run, work))
    backbone, about = model_files.load_model(work.out / run.name)
    write_json(work.out / f"{run.name}-train.json", record)
    save_fp16(backbone, {k: v for k, v in about.items() if k != "weights"}, file)
    return _with_record(Network(file, model_files.load_weights(file)[1]["weights"], record), run, work)


def _check_no_results(run: Run, work: Work) -> None:
    """Raises UserError where results of this name exist: they are another network's."""
    if checkpoint.latest(work.out / run.name) is not None:
        return
    claimed = next((file for file in sorted((work.results / run.name).glob("*.json")) if read(file)), None)
    if claimed:
        raise UserError(
            f"{str(claimed)!r} belongs to a training run that is not in {str(work.out)!r}: give another --results "
            f"to train again, or add --only-evaluate to use the results as they are"
        )


def config_of(run: Run, work: Work) -> TrainConfig:
    teacher = [f"teacher={work.out / run.teacher.name}"] if run.teacher else []
    start = [f"init_from={weights_file(run.start, work)}"] if run.start else []
    config = recipe(run.recipe, [*run.settings, *teacher, *start])
    if not work.epochs:
        return config
    return replace(
        config, epochs=work.epochs, warmup=min(config.warmup, work.epochs / 2)
    )  # so that a run of one epoch learns


def _train(run: Run, work: Work) -> dict[str, Any]:
    config, folder = config_of(run, work), work.out / run.name
    if run.teacher:  # a file of weights has no classifier to learn from
        there = checkpoint.latest(work.out / run.teacher.name) is not None
        (network if there else _train_network)(run.teacher, replace(work, weights=None))
    if run.start:
        network(run.start, work)
    data = folder_of(config.dataset, config.crop, work, run.copy)
    base, val = load_splits(config, data, per_class=work.per_class, cache_dir=work.cache)
    work.say(f"{run.name}: training {run.recipe} for {count(config.epochs, 'epoch')} on {len(base):,} pictures")
    again = checkpoint.latest(folder) is not None
    where = "cpu" if work.device == "cpu" else "auto"
    with work.watch() as show:
        record = train(config, base, val, folder, resume=again, accelerator=where, on_event=show)
    if not record["finished"]:
        raise Stopped
    return record | ({"per_class": work.per_class} if work.per_class else {})


def _check_config(run: Run, record: dict[str, Any], work: Work) -> None:
    now = _decisive(config_of(run, work)) | {"per_class": work.per_class}
    before = now
    if record:
        before = _decisive(TrainConfig.from_dict(record["config"])) | {"per_class": record.get("per_class")}
    changed = [f"{key}={before[key]!r:.80} (now {now[key]!r:.80})" for key in now if before[key] != now[key]]
    if changed:
        raise UserError(
            f"the network {run.name} in {str(work.out)!r} was trained with {'; '.join(changed)}: choose another --out "
            f"to train it again, or add --only-evaluate to use it as it is"
        )


def _decisive(config: TrainConfig) -> dict[str, Any]:
    """The settings that decide the result: not how often it is saved, nor in which folder a network lies."""
    return as_kept({"config": config.to_dict()})["config"] | {"checkpoint_every": 1}


def _with_record(net: Network, run: Run, work: Work) -> Network:
    """The network, its training record written to the results (never over that of another training)."""
    file = work.results / run.name / "train.json"
    there = as_kept(read(file))
    if net.record and there != net.record:
        if there and any(there.get(key) != net.record.get(key) for key in ("config", "per_class", "best")):
            epochs = count(there["config"]["epochs"], "epoch")
            raise UserError(
                f"{str(file)!r} is the record of another training ({epochs}) of {run.name}: give another --results"
            )
        write_json(file, net.record)
    return net if net.record or work.weights else replace(net, record=there)


def folder_of(dataset: str, crop: str, work: Work, copy: str = "") -> Path | None:
    """The dataset's own folder, or the first that holds its novel classes, or the first of all.

    A copy of the dataset has a folder of its own name, and the published files never stand in for it.
    """
    if copy:
        if not work.data.get(copy):
            raise UserError(f"{copy} is a copy of {dataset} with other files: give its folder with --data {copy}=DIR")
        return work.data[copy][0]
    places = work.data.get(dataset) or work.data.get("", ())
    if dataset == "glyphs" or not places:
        return None
    with_pictures = (place for place in places if place.is_dir() and search(dataset, "novel", place, crop) is not None)
    return next(with_pictures, places[0]) if len(places) > 1 else places[0]


def save_fp16(backbone: nn.Module, metadata: Mapping[str, Any], path: str | Path) -> None:
    """Write a model file for shipping: the backbone alone, in half precision but for BatchNorm's statistics."""
    weights = {
        f"backbone.{name}": t.half() if "running" not in name and t.is_floating_point() else t
        for name, t in backbone.state_dict().items()
    }
    with written_whole(path) as partial:
        write_synced(partial, bytes_of(model_files.plain(weights), {"protoadapt": json.dumps(dict(metadata))}))
