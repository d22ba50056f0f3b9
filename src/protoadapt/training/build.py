"""The parts of a run: pictures, the module to train, teachers, processes and their signals."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from protoadapt.core.errors import UserError, install
from protoadapt.training import checkpoint
from protoadapt.training.config import TrainConfig
from protoadapt.training.datasets import load_images
from protoadapt.training.learner import Learner
from protoadapt.vision.networks import model_files
from protoadapt.vision.networks.backbones import build, initialise
from protoadapt.vision.pictures.split import Images

if TYPE_CHECKING:
    from lightning_fabric import Fabric


def make_learner(config: TrainConfig, n_classes: int, mean: list[float], std: list[float]) -> Learner:
    """Backbone and heads, initialised from the config's seed; the backbone from `init_from` where that is set."""
    learner = Learner(build(config.backbone, config.width), n_classes, mean, std, config)
    initialise(learner, torch.Generator().manual_seed(config.seed))
    if config.init_from:
        earlier, _ = model_files.load_model(config.init_from)
        model_files.load_into(learner.backbone, earlier.state_dict(), config.init_from)
    return learner


def load_splits(config: TrainConfig, data_dir: str | Path | None, **options: Any) -> tuple[Images, Images]:
    """The base and validation pictures of a config. Training opens no other split.

    Base pictures have the side `store` of the config, since windows are cut from them; validation pictures have its
    `size`, resized from the files as `extract` does.

    data_dir: folder that holds the dataset; None for built-in ones. options: further arguments of `load_images`.

    Example: `base, val = load_splits(recipe("hct_r", ["dataset=cub"]), "data")`.
    """
    base, val = (
        load_images(config.dataset, split, data_dir, size=side, crop=config.crop, **options)
        for split, side in (("base", config.stored_side), ("val", config.size))
    )
    return base, val


def stored_config(run: str | Path) -> TrainConfig:
    """The config of a run, from its last checkpoint."""
    saved = checkpoint.load_latest(Path(run))
    with checkpoint.understood(saved.folder):
        return TrainConfig.from_dict(saved.config["train"])


def load_teacher(path: str, n_classes: int) -> Learner:
    """The frozen classifier of an earlier run on the same classes."""
    weights, about = model_files.load_weights(path)
    backbone = build(about["backbone"], about["width"])
    kind = "cosine" if "classifier.scale" in weights else "linear"
    learner = Learner(backbone, n_classes, about["mean"], about["std"], TrainConfig(classifier=kind))
    model_files.load_into(learner, {k: w for k, w in weights.items() if k in learner.state_dict()}, path)
    return learner.eval().requires_grad_(False)


def launch(accelerator: str, devices: int | str, num_nodes: int) -> "Fabric":
    """The processes of a run: started here, or recognised when torchrun or SLURM started them.

    Arguments as in lightning-fabric. The precision is bf16-mixed on a GPU, 32-true elsewhere.
    """
    try:
        from lightning_fabric import Fabric
    except ImportError as error:
        raise UserError(f"training needs lightning-fabric, which is not installed: {install('train')}") from error
    gpu = accelerator in ("auto", "gpu", "cuda") and torch.cuda.is_available()
    precision: Any = "bf16-mixed" if gpu else "32-true"
    try:
        fabric = Fabric(accelerator=accelerator, devices=devices, num_nodes=num_nodes, precision=precision)
    except (ValueError, TypeError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise UserError(f"{devices} × {accelerator} on {num_nodes} machines does not work here: {reason}") from error
    fabric.launch()
    return fabric


@contextmanager
def stop_requested() -> Iterator[threading.Event]:
    """An event that SIGTERM or Ctrl-C sets, so that the loop can save a checkpoint; a second Ctrl-C ends at once.

    After Ctrl-C the caller must not continue as if training were finished, so KeyboardInterrupt is raised at the end.
    """
    stop = threading.Event()
    received: set[int] = set()
    if threading.current_thread() is not threading.main_thread():  # where no signal arrives
        yield stop
        return

    def ask(number: Any, frame: object) -> None:
        received.add(number)
        stop.set()
        if number == signal.SIGINT:
            signal.signal(number, before[number])

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    for number, handler in before.items():
        if number == signal.SIGTERM or handler is signal.default_int_handler:  # Ctrl-C may be ignored, or another's
            signal.signal(number, ask)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if signal.SIGINT in received:
        raise KeyboardInterrupt
