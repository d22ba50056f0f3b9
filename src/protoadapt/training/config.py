"""The config of a training run: every choice that changes its result, and nothing else.

A setting is declared once, with its default, its range and one line of help; checks, error messages and overrides
("key=value", as the command line takes them with --set) come from that declaration.
"""

import json
import types
import typing
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from typing import Any

from protoadapt.core.errors import UserError, finite, no_such
from protoadapt.core.heads import HEADS
from protoadapt.core.methods.by_name import parse_value
from protoadapt.core.methods.settings import Setting, declaration
from protoadapt.core.protocol import MOST_EPISODES
from protoadapt.training.augment.weak import CROPS
from protoadapt.training.objectives import OBJECTIVES, Needs, combined_needs
from protoadapt.vision.networks.backbones import BACKBONES

_LARGEST_INT, _LARGEST_FLOAT, _SMALLEST = 2**31 - 1, 1e30, 1e-30


def setting(default: Any, help: str, low: float = 0, high: float | None = None, **options: Any) -> Any:
    """A field of a config: default, one line of help, and the range low … high or other options of `Setting`."""
    most = high if high is not None else _LARGEST_FLOAT if isinstance(default, float) else _LARGEST_INT
    return field(default=default, metadata={"setting": Setting(help, low, most, **options)})


def declared_settings(kind: type) -> dict[str, Setting]:
    """Name → declaration (default, range, help) of every setting of `TrainConfig` or `Phase`."""
    hints = typing.get_type_hints(kind)
    declared = {f.name: f for f in fields(kind) if f.metadata}  # but phases and weights, which have checks of their own
    return {name: declaration(name, f.default, hints[name], f.metadata["setting"]) for name, f in declared.items()}


def check_settings(config: Any) -> None:
    """Raise a UserError for the first setting whose value is not of its type or not in its range."""
    for name, declared in declared_settings(type(config)).items():
        declared.check(getattr(config, name))


@dataclass(frozen=True)
class Phase:
    """A part of the run with its own objectives: loss = Σ weight · objective.

    Example: `Phase(1 / 3, {"ce": 1.0, "rotation": 1.0})` for the first third of the epochs.
    """

    until: float = setting(1.0, "end as a share of all epochs; the last is 1", low=_SMALLEST, high=1)
    weights: dict[str, float] = field(default_factory=lambda: {"ce": 1.0})  # of each objective in the loss
    teacher: str | None = setting(None, "run or checkpoint folder of the teacher, for the objective distill")

    def __post_init__(self) -> None:
        check_settings(self)
        if not isinstance(self.weights, dict) or not self.weights:
            raise UserError('a phase has no objectives: give weights such as {"ce": 1}')
        for name, weight in self.weights.items():
            if name not in OBJECTIVES:
                raise no_such("objective", name, OBJECTIVES)
            if not finite(weight, 0, _LARGEST_FLOAT):
                raise UserError(f"the weight of {name} is {weight}: it must be a number from 0 to 1e30")
        if len(heads := [name for name in HEADS if name in self.weights]) > 1:
            raise UserError(f"{' and '.join(heads)} are two heads of one network: choose one of them per phase")
        taught = self.needs.teacher  # an error where two objectives do not fit together
        if taught != (self.teacher is not None):
            raise UserError(f"distill learns from a teacher, and the teacher is {self.teacher!r}: give both or neither")

    @cached_property
    def needs(self) -> Needs:
        """What the objectives need together; an error where two do not fit together."""
        return combined_needs(self.weights)


@dataclass(frozen=True)
class TrainConfig:
    """A run, complete: config and seed fix the result (on one kind of machine).

    Example: `TrainConfig(dataset="cub", epochs=80, phases=(Phase(1.0, {"ce": 1.0, "rotation": 1.0}),))`.
    """

    # data
    dataset: str = setting("cifar-fs", "name of the dataset, as `protoadapt data` takes it")
    size: int = setting(84, "side of the network's input in pixels", low=16)
    store: int | None = setting(None, "side of base pictures, from which windows are cut; none: size", low=1)
    crop: str = setting("none", 'part of each picture that is used: "none" for all of it, or CUB\'s bounding "box"')
    # views
    weak_crop: str = setting("pad", '"pad": shift by up to 1/8 of the side; "resized": random window', choices=CROPS)
    scale: float = setting(0.35, 'smallest share of the picture\'s area in a "resized" window', low=_SMALLEST, high=1)
    flip: bool = setting(True, "mirror half of the weak views; switch off where left and right matter, as in letters")
    jitter: float = setting(0.0, "weak views: brightness, contrast, saturation change by 1 ± jitter", high=1)
    # network
    backbone: str = setting("resnet12", "network to train, a key of BACKBONES")
    width: int | None = setting(None, "channels of the first stage; none: as published", low=1)
    dropblock: float = setting(0.0, "share of places set to 0 after the last two stages", high=1, below=True)
    classifier: str = setting("linear", "classifier of the base classes", choices=("linear", "cosine"))
    init_from: str | None = setting(None, "run, checkpoint or model file to start the backbone from; none: random")
    frozen: bool = setting(False, "keep the backbone as init_from gives it, so that only heads learn")
    # objectives
    phases: tuple[Phase, ...] = (Phase(),)  # parts of the run, each with its own objectives
    alpha: float = setting(2.0, "mixing weights are drawn from Beta(alpha, alpha)", low=_SMALLEST)
    mixing_layers: tuple[int, ...] | None = setting(None, "layers to mix at, 0 is the input; none: all of them")
    label_smoothing: float = setting(0.0, "share of each target that is spread over all classes", high=1, below=True)
    rotate_every: int = setting(4, "every n-th picture is rotated for the objective rotation; 1: all of them", low=1)
    way: int = setting(5, "classes per training episode", low=2)
    shot: int = setting(5, "support pictures per class of a training episode", low=1)
    query: int = setting(15, "query pictures per class of a training episode", low=1)
    episodes: int = setting(100, "training episodes per epoch", low=1)
    episode_batch: int = setting(1, "training episodes per step", low=1)
    # optimisation
    epochs: int = setting(40, "passes over the base pictures", low=1, high=10**6)
    batch: int = setting(256, "pictures per step over all processes, before rotated copies and mixed rows", low=1)
    optimizer: str = setting("sgd", "sgd with Nesterov momentum, or adam", choices=("sgd", "adam"))
    lr: float = setting(0.05, "highest learning rate", low=_SMALLEST)
    head_factor: float = setting(1.0, "factor of the learning rate for all heads", low=_SMALLEST)
    momentum: float = setting(0.9, "momentum of sgd", high=1, below=True)
    weight_decay: float = setting(5e-4, "weight decay on all parameters")
    warmup: float = setting(0.0, "epochs over which the learning rate rises from 0")
    schedule: str = setting("cosine", "rate after warm-up: cosine to 0, or constant", choices=("cosine", "constant"))
    ema: float = setting(0.999, "decay of the weight average that is kept; 0: no average", high=1, below=True)
    seed: int = setting(0, "seed of every random number of the run", high=2**32 - 1)
    # validation and checkpoints
    validate_every: int = setting(2, "epochs between validations", low=1)
    validation_episodes: int = setting(600, "episodes per validation and shot", low=1, high=MOST_EPISODES)
    checkpoint_every: int = setting(1, "epochs between checkpoints", low=1)

    def __post_init__(self) -> None:
        for name in ("phases", "mixing_layers"):
            if isinstance(getattr(self, name), list):
                object.__setattr__(self, name, tuple(getattr(self, name)))
        check_settings(self)
        if not isinstance(self.phases, tuple) or {type(phase) for phase in self.phases} - {Phase}:
            raise UserError(f"phases is {self.phases!r:.80}: it must be a tuple of Phase")
        if self.backbone not in BACKBONES:
            raise no_such("backbone", self.backbone, BACKBONES)
        for name, most in (("warmup", "epochs"), ("episode_batch", "episodes")):
            value, limit = getattr(self, name), getattr(self, most)
            if value > limit:
                raise UserError(f"{name} is {value}: it must be at most {most}, which is {limit}")
        if self.stored_side < self.size:
            raise UserError(f"store is {self.store}: it must be at least size, which is {self.size}")
        if self.frozen and not self.init_from:
            raise UserError("frozen is true but the backbone is random: name a trained one with init_from=RUN")
        ends = [phase.until for phase in self.phases]
        if not ends or ends != sorted(set(ends)) or ends[-1] != 1:
            raise UserError(f"the phases last until {ends}: their ends must grow, and the last must be 1")
        every = self.rotate_every if any(phase.needs.rotated for phase in self.phases) else 1
        if self.batch % every:
            raise UserError(
                f"batch is {self.batch}: every {every}th picture is rotated, so it must be a multiple of {every}"
            )

    @property
    def phase_starts(self) -> list[int]:
        """The first epoch of each phase (the first epoch is 0)."""
        return [0, *(round(phase.until * self.epochs) for phase in self.phases[:-1])]

    def phase(self, epoch: int) -> Phase:
        """The phase of an epoch."""
        return next(p for p in self.phases if epoch < round(p.until * self.epochs) or p is self.phases[-1])

    @property
    def stored_side(self) -> int:
        """The side of the base pictures in the cache: `store`, or `size` where that is not set."""
        return self.size if self.store is None else self.store

    @property
    def head(self) -> str | None:
        """The name in HEADS of the few-shot head that the last phase trains, or None."""
        return next((name for name in HEADS if name in self.phases[-1].weights), None)

    @property
    def weak_options(self) -> dict[str, Any]:
        """Arguments of `augment.draw_weak` and `draw_strong`."""
        return {"crop": self.weak_crop, "scale": (self.scale, 1.0), "flip": self.flip, "jitter": self.jitter}

    def to_dict(self) -> dict[str, Any]:
        """Plain values only: what `json` writes and `from_dict` reads."""
        return json.loads(json.dumps(asdict(self)))

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "TrainConfig":
        """The inverse of `to_dict`."""
        return cls(**values | {"phases": tuple(Phase(**phase) for phase in values["phases"])})


def split_override(text: str) -> tuple[str, str]:
    """("epochs", "40") of "epochs=40"."""
    key, equals, value = (part.strip() for part in text.partition("="))
    if not equals:
        raise UserError(f"{text!r} is not a setting: write key=value, such as epochs=40")
    return key, value


def apply_overrides(config: TrainConfig, overrides: Iterable[str]) -> TrainConfig:
    """A new config with each "key=value" set, the value read as the type of the field.

    A phase is named by its number from 0: "phases.1.hct=0.5" sets a weight, "phases.1.hct=none" removes the objective,
    "phases.0.until=0.5" sets the end of the phase.

    Example: `apply_overrides(recipe("hct_r"), ["epochs=7", "mixing_layers=0,2", "phases.1.hct=0.5"])`.
    """
    declared = declared_settings(TrainConfig)
    changes: dict[str, Any] = {}
    in_phase: dict[int, dict[str, str]] = {}  # set at once per phase: a teacher is valid only together with "distill"
    for key, value in map(split_override, overrides):
        place, _, name = key.removeprefix("phases.").partition(".")
        if key.startswith("phases"):
            if place not in map(str, range(len(config.phases))):
                most = len(config.phases) - 1
                raise UserError(f"{key!r} names no phase: write phases.N.hct=0.5 with N from 0 to {most}")
            in_phase.setdefault(int(place), {})[name] = value
        elif key not in declared:
            raise no_such("setting", key, declared)
        else:
            changes[key] = _parsed(value, declared[key].kinds)
    phases = tuple(_changed(phase, in_phase.get(number, {})) for number, phase in enumerate(config.phases))
    return replace(config, **changes, phases=phases)


def _changed(phase: Phase, values: dict[str, str]) -> Phase:
    own: dict[str, Any] = {}
    weights: dict[str, Any] = dict(phase.weights)
    for name, value in values.items():
        if name in ("until", "teacher"):
            own[name] = _parsed(value, declared_settings(Phase)[name].kinds)
        else:
            weights[name] = parse_value(value)
    return replace(phase, **own, weights={name: weight for name, weight in weights.items() if weight is not None})


def _parsed(text: str, kinds: Sequence[Any]) -> Any:
    """The value that a text stands for in a setting of these kinds, which its check may still refuse."""
    if str in kinds:
        return None if types.NoneType in kinds and text == "none" else text
    value = parse_value(text)
    return (value,) if Sequence in kinds and isinstance(value, int) else value
