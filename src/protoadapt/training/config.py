"""What a training run is: every choice that changes its result, and nothing else."""

import json
from dataclasses import asdict, dataclass, field, fields
from itertools import pairwise
from typing import Any

from protoadapt.core.episodes import check_seed
from protoadapt.core.errors import UserError, unknown
from protoadapt.core.evaluate import MOST_EPISODES
from protoadapt.core.untrusted import finite, whole
from protoadapt.training.augment.weak import CROPS
from protoadapt.training.objectives import OBJECTIVES, needs
from protoadapt.vision.networks.backbones import BACKBONES

SAMPLERS = ("batches", "episodes")
OPTIMIZERS = ("sgd", "adam")
COUNTS = {"epochs": 10**6, "validation_episodes": MOST_EPISODES}
COUNTS |= dict.fromkeys(("size", "batch", "cycles", "shot", "query", "episodes", "episode_batch"), 2**31 - 1)
COUNTS |= dict.fromkeys(("validate_every", "checkpoint_every"), 2**31 - 1)
"""Settings that are whole numbers from 1, and the most of each."""


def _require(name: str, value: Any, fine: bool, rule: str) -> None:
    if not fine:
        raise UserError(f"{name} is {value}: it must be {rule}")


@dataclass(frozen=True)
class Phase:
    """A stretch of the run with its own objectives."""

    until: float  # end of the phase, as a share of all epochs; the last phase ends at 1
    weights: dict[str, float] = field(default_factory=lambda: {"ce": 1.0})  # loss = Σ weight · objective
    sampler: str = "batches"  # "batches" of shuffled pictures, or few-shot "episodes"
    teacher: str | None = None  # run or checkpoint folder of the teacher, for the objective "distill"

    def __post_init__(self) -> None:
        if not 0 < self.until <= 1:
            raise UserError(f"a phase lasts until {self.until}: give a share of the epochs in (0, 1]")
        if not self.weights:
            raise UserError('a phase has no objectives: give weights such as {"ce": 1}')
        for name, weight in self.weights.items():
            if name not in OBJECTIVES:
                raise unknown("objective", name, OBJECTIVES)
            _require(f"the weight of {name}", weight, finite(weight, 0, 1e30), "a number from 0 to 1e30")
        if self.sampler not in SAMPLERS:
            raise unknown("sampler", self.sampler, SAMPLERS)
        if "episodes" in self.needs and self.sampler != "episodes":
            raise UserError('the objective protonet learns from episodes: set sampler to "episodes"')
        if len({"hct", "manifold_mixup"} & set(self.weights)) == 2:
            raise UserError("hct and manifold_mixup both mix the same rows: choose one of them a phase")
        if ("teacher" in self.needs) != (self.teacher is not None):
            raise UserError("the objective distill and a teacher belong together: give both or neither")

    @property
    def needs(self) -> frozenset[str]:
        return needs(self.weights)


@dataclass(frozen=True)
class TrainConfig:
    """A run, complete: config and seed fix the result (on one kind of machine)."""

    # data
    dataset: str = "cifar-fs"  # name in protoadapt.training.datasets.DATASETS
    size: int = 84  # side of the pictures in pixels
    crop: str = "none"  # what is cut out of each picture when it is decoded: "none", or CUB's bounding "box"
    # views
    weak_crop: str = "pad"  # "pad": shift by up to 1/8 of the side; "resized": random window, enlarged
    scale: float = 0.35  # smallest share of the picture's area in a "resized" window
    flip: bool = True  # mirror every other weak view; not where left and right matter, as in letters
    jitter: float = 0.0  # colour jitter of weak views: brightness, contrast and saturation change by 1 ± jitter
    # network
    backbone: str = "resnet12"  # name in protoadapt.vision.networks.backbones.BACKBONES
    width: int | None = None  # channels of its first stage; None: as published
    dropblock: float = 0.0  # about this share of places is blotted out after each of the last two stages in training
    sync_batchnorm: bool = False  # BatchNorm statistics over all processes (True) or over each one's share (False)
    init_from: str | None = None  # run, checkpoint or model file whose backbone is the start; None: random
    # objectives
    phases: tuple[Phase, ...] = (Phase(until=1.0),)
    alpha: float = 2.0  # λ ~ Beta(alpha, alpha)
    mixing_layers: tuple[int, ...] | None = None  # layers to mix at, 0 is the input; None: all of them
    label_smoothing: float = 0.0
    distill_temperature: float = 4.0
    way: int = 5  # classes in an episode, for the sampler "episodes"
    shot: int = 5  # support pictures of each
    query: int = 15  # query pictures of each
    episodes: int = 100  # an epoch
    episode_batch: int = 1  # episodes a step
    # optimisation
    epochs: int = 40
    batch: int = 256  # pictures a step over all processes, before copies and views
    optimizer: str = "sgd"  # "sgd" with Nesterov momentum, or "adam"
    lr: float = 0.05
    momentum: float = 0.9
    weight_decay: float = 5e-4  # on all parameters
    warmup: float = 0.0  # epochs over which the learning rate grows from 0
    cycles: int = 1  # cosine cycles, each from lr to 0
    ema: float = 0.999  # decay of the weight average that is validated and kept; 0: no average
    seed: int = 0
    # validation and checkpoints
    validate_every: int = 2  # epochs
    validation_episodes: int = 600
    checkpoint_every: int = 1  # epochs

    def __post_init__(self) -> None:
        object.__setattr__(self, "phases", tuple(self.phases))
        if self.mixing_layers is not None:
            object.__setattr__(self, "mixing_layers", tuple(self.mixing_layers))
        if self.backbone not in BACKBONES:
            raise unknown("backbone", self.backbone, BACKBONES)
        if self.weak_crop not in CROPS:
            raise unknown("weak_crop", self.weak_crop, CROPS)
        if self.optimizer not in OPTIMIZERS:
            raise unknown("optimizer", self.optimizer, OPTIMIZERS)
        for name, most in COUNTS.items():
            _require(name, getattr(self, name), whole(getattr(self, name), 1, most), f"a whole number from 1 to {most}")
        for name, least in {"lr": 1e-30, "alpha": 1e-30, "distill_temperature": 1e-30, "weight_decay": 0}.items():
            value = getattr(self, name)
            _require(name, value, finite(value, least, 1e30), f"a number from {least} to 1e30")
        rising = finite(self.warmup, 0, self.epochs)
        _require("warmup", self.warmup, rising, f"a number from 0 to epochs, which is {self.epochs}")
        _require(
            *("episode_batch", self.episode_batch, self.episode_batch <= self.episodes),
            f"at most episodes, which is {self.episodes}",
        )
        for name in ("momentum", "ema", "label_smoothing", "dropblock"):
            _require(name, getattr(self, name), 0 <= getattr(self, name) < 1, "in [0, 1)")
        check_seed(self.seed)
        _require("way", self.way, self.way >= 2, "at least 2")
        _require("scale", self.scale, 0 < self.scale <= 1, "in (0, 1]")
        _require("jitter", self.jitter, 0 <= self.jitter <= 1, "in [0, 1]")
        ends = [phase.until for phase in self.phases]
        if not ends or ends != sorted(set(ends)) or ends[-1] != 1:
            raise UserError(f"the phases last until {ends}: their ends must grow, and the last must be 1")
        if any("rotated" in phase.needs for phase in self.phases) and self.batch % 4:
            raise UserError(
                f"batch is {self.batch}: rotation takes every fourth picture, so it must be a multiple of 4"
            )

    def phase(self, epoch: int) -> Phase:
        """The phase of an epoch (the first epoch is 0)."""
        return next(p for p in self.phases if epoch < round(p.until * self.epochs) or p is self.phases[-1])

    @property
    def phases_without_epochs(self) -> list[int]:
        """Phases that the number of epochs leaves no room for."""
        ends = [0, *(round(phase.until * self.epochs) for phase in self.phases)]
        return [number for number, (start, end) in enumerate(pairwise(ends)) if start == end]

    @property
    def objectives(self) -> frozenset[str]:
        return frozenset(name for phase in self.phases for name in phase.weights)

    @property
    def weak_options(self) -> dict[str, Any]:
        """Arguments of `augment.draw_weak` and `draw_strong`."""
        return {"crop": self.weak_crop, "scale": (self.scale, 1.0), "flip": self.flip, "jitter": self.jitter}

    def to_dict(self) -> dict[str, Any]:
        """Plain values only: what `json` writes and `from_dict` reads."""
        return json.loads(json.dumps(asdict(self)))

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "TrainConfig":
        known = {f.name for f in fields(cls)}
        for name in values:
            if name not in known:
                raise unknown("setting", name, known)
        phases = values.get("phases")
        try:
            if phases is not None:
                values = values | {"phases": tuple(Phase(**phase) for phase in phases)}
            return cls(**values)
        except TypeError as error:
            raise UserError(f"the config does not describe a run ({error}): compare it with a recipe's") from error
