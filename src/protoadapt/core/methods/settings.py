"""Settings of the inference methods, each declared once: type, range and one line of help.

A method declares a setting in its signature, `tau: Annotated[float, Setting("…", 1e-6, 1e6)] = 10.0`. The check of the
function's arguments (`checked`), the estimators' `__init__` and check, `protoadapt methods` and the page of the methods
all come from that (`declarations`). Types that several methods share have a name below.
"""

import functools
import inspect
import math
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Annotated, Any, TypeVar

import numpy as np
from torch import Tensor

from protoadapt.core.errors import UserError, no_such

F = TypeVar("F", bound=Callable[..., Any])
CENTERS = ("none", "separate", "joint", "support")


@dataclass(frozen=True)
class Setting:
    """One line of help, and the range of a number, of each of several numbers, or the words to choose from."""

    help: str = ""
    low: float = -math.inf
    high: float = math.inf
    choices: tuple[str, ...] = ()
    length: int | None = None  # of a sequence of numbers
    below: bool = False  # `high` itself is out of range


Steps = Annotated[int, Setting("number of adaptation steps", 0, 100_000)]
StepSize = Annotated[float, Setting("step size σ: weight of the new estimate in each update", 0, 1)]
Temperature = Annotated[float, Setting("inverse temperature τ: factor of the cosine before the softmax", 1e-6, 1e6)]
MetricScale = Annotated[
    float | None, Setting("inverse temperature τ of the metric; none: 10 (cosine) or 1 (euclid)", 1e-6, 1e6)
]
DistanceScale = Annotated[float, Setting("factor λ of the squared distance before the softmax", 1e-6, 1e6)]
TransportScale = Annotated[float, Setting("factor λ of the squared distance in the transport's kernel", 1e-6, 30)]
Exponent = Annotated[float, Setting("β, exponent of the power transform", 1e-3, 10)]
Power = Annotated[
    str,
    Setting(
        "power transform: strict takes (x + 1e-6)^β and refuses negative features, signed takes sign(x)·|x|^β, auto "
        "is strict for entries x ≥ 0 and signed for negative ones, off leaves it out",
        choices=("strict", "signed", "auto", "off"),
    ),
]
Center = Annotated[
    str,
    Setting(
        "mean that is subtracted: separate (support and unlabelled rows each their own), joint, support or none",
        choices=CENTERS,
    ),
]
QueryCenter = Annotated[
    str,
    Setting(
        "semi-supervised only: mean that is subtracted from the queries, none or that of the unlabelled rows",
        choices=("none", "unlabeled"),
    ),
]
UnitLength = Annotated[bool, Setting("scale centred rows to unit length")]
PseudoRows = Annotated[
    float,
    Setting(
        "κ: shrinks each prototype towards the centre, as κ/√K extra rows there would with K labelled rows per class",
        0,
        1e6,
    ),
]
Metric = Annotated[str, Setting("similarity to the prototypes", choices=("cosine", "euclid"))]
ClassPrior = Annotated[
    Sequence[float] | Tensor | None,
    Setting("share of each class among the queries, one positive number per class; none: equal shares", 1e-9, 1e9),
]
ClassShares = Annotated[
    Sequence[float] | Tensor | str | None,
    Setting(
        "what is known of the class sizes among the queries: equal, or one positive share per class; none: nothing",
        1e-9,
        1e9,
        choices=("equal",),
    ),
]
LossWeights = Annotated[
    Sequence[float], Setting("weights of the support cross-entropy, H(Y) and H(Y|X)", 0, 1e3, length=3)
]
LearningRate = Annotated[float, Setting("learning rate", 1e-9, 10)]
LogitScale = Annotated[float, Setting("inverse temperature τ: factor of the logits", 1e-6, 1e6)]


@dataclass(frozen=True)
class Declaration:
    """A setting of a method: its name, default (`inspect.Parameter.empty` where there is none), type and `Setting`."""

    name: str
    default: Any
    kinds: tuple[Any, ...]  # the plain types that its annotation allows; () where it says nothing that can be checked
    setting: Setting

    @property
    def range(self) -> str:
        """What values fit, in words."""
        s, words = self.setting, []
        bounds = f" from {s.low:g} to {'below ' * s.below}{s.high:g}" if s.high < math.inf else ""
        if s.choices:
            words.append(f"one of {', '.join(s.choices)}" if len(s.choices) > 1 else s.choices[0])
        if Sequence in self.kinds:
            words.append(f"{s.length or 'a list of'} numbers{bounds}")
        elif s.choices:
            pass
        elif float in self.kinds:
            words.append(f"a number{bounds}")
        elif int in self.kinds:
            words.append(f"a whole number{bounds.replace(f'{s.high:g}', f'{s.high:,.0f}')}")
        elif bool in self.kinds:
            words.append("true or false")
        elif str in self.kinds:
            words.append("a word")
        return " or ".join(words + ["none"] * (types.NoneType in self.kinds))

    def check(self, value: Any) -> None:
        """Raises UserError where the value does not fit."""
        if self.kinds and not any(self._fits(value, kind) for kind in self.kinds):
            shown = " ".join(repr(value).split())
            shown = shown if len(shown) < 80 else f"{shown[:77]}…"
            raise UserError(f"{self.name} is {shown}: it must be {self.range}")

    def _fits(self, value: Any, kind: Any) -> bool:
        low, high = self.setting.low, self.setting.high
        if self.setting.below:
            high = math.nextafter(high, low)
        if kind is types.NoneType:
            return value is None
        if kind is bool:
            return isinstance(value, (bool, np.bool_))
        if kind is str:
            return isinstance(value, str) and (not self.setting.choices or value in self.setting.choices)
        if kind is Sequence:
            numbers = value.tolist() if isinstance(value, (np.ndarray, Tensor)) else value
            fits = isinstance(numbers, (list, tuple)) and len(numbers) == (self.setting.length or len(numbers))
            return fits and all(_number(each, Real, low, high) for each in numbers)
        return _number(value, Integral if kind is int else Real, low, high)


def _number(value: Any, kind: Any, low: float, high: float) -> bool:
    """Whole numbers are numbers too; truth values, NaN, infinity and what is too long for a float are not."""
    fits = isinstance(value, kind) and not isinstance(value, (bool, np.bool_)) and low <= value <= high
    return bool(fits) and abs(value) < 1e300


def declarations(function: Callable[..., Any]) -> dict[str, Declaration]:
    """The settings of a method, a user's own too: every parameter after the episodes, by name, in their order.

    >>> from protoadapt.core.methods import METHODS
    >>> declarations(METHODS["cipa"])["sigma"].range
    'a number from 0 to 1'
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())[1:]
    except (TypeError, ValueError) as error:
        raise UserError(f"{function!r} has no readable signature: a method is a function of Episodes") from error
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except Exception:  # a user's annotations may be any text
        hints = {}
    return {
        p.name: Declaration(p.name, p.default, *_parts(hints.get(p.name)))
        for p in parameters
        if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)
    }


def declaration(name: str, default: Any, hint: Any, setting: Setting) -> Declaration:
    """The declaration of a setting that is not a method's parameter, such as a field of a dataclass."""
    return Declaration(name, default, _parts(hint)[0], setting)


def _parts(hint: Any) -> tuple[tuple[Any, ...], Setting]:
    """The plain types and the Setting of an annotation."""
    setting = Setting()
    if typing.get_origin(hint) is Annotated:
        hint, *more = typing.get_args(hint)
        setting = next((one for one in more if isinstance(one, Setting)), setting)
    kinds = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    kinds = tuple(Sequence if typing.get_origin(kind) in (Sequence, list, tuple) else kind for kind in kinds)
    kinds = tuple(kind for kind in kinds if not (kind is Tensor and Sequence in kinds))
    known = {int, float, bool, str, types.NoneType, Sequence}
    return (kinds if set(kinds) <= known else ()), setting


def check_arguments(name: str, function: Callable[..., Any], arguments: Mapping[str, Any]) -> None:
    """Raises UserError for an argument that the method does not take, or a value out of its range."""
    declared = declarations(function)
    parameters = list(inspect.signature(function).parameters.values())
    if not any(p.kind not in (p.KEYWORD_ONLY, p.VAR_KEYWORD) for p in parameters[:1]):
        raise UserError(f"{name} takes no episodes: it must take episodes and return (E, Q, W) probabilities")
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        arguments = {key: value for key, value in arguments.items() if key in declared}
    for key, value in arguments.items():
        if key not in declared:
            raise no_such("setting", key, declared, of=name)
        declared[key].check(value)


def checked(function: F) -> F:
    """A method that checks its arguments against their declarations before it runs."""
    declared = declarations(function)

    @functools.wraps(function)
    def run(episodes: Any, **arguments: Any) -> Any:
        for key, value in arguments.items():
            if key in declared:  # Python refuses the others
                declared[key].check(value)
        return function(episodes, **arguments)

    return typing.cast(F, run)
