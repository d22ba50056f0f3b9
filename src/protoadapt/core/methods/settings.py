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
        s = self.setting
        bounds = f" from {s.low:g} to {'below ' * s.below}{s.high:g}" if s.high < math.inf else ""
        whole = f" from {s.low:g} to {s.high:,.0f}" if bounds else ""
        word = f"one of {', '.join(s.choices)}" if len(s.choices) > 1 else "".join(s.choices) or "a word"
        words = {
            str: word,
            Sequence: f"{s.length or 'a list of'} numbers{bounds}",
            float: f"a number{bounds}",
            int: f"a whole number{whole}",
            bool: "true or false",
            types.NoneType: "none",
        }
        return " or ".join(words[kind] for kind in words if kind in self.kinds)

    def check(self, value: Any) -> None:
        """Raises UserError where the value does not fit."""
        if self.kinds and not any(self._fits(value, kind) for kind in self.kinds):
            shown = " ".join(repr(value).split())
            shown = shown if len(shown) < 80 else f"{shown[:77]}…"
            raise UserError(f"{self.name} is {shown}: it must be {self.range}")

    def _fits(self, value: Any, kind: Any) -> bool:
        s = self.setting
        if kind is types.NoneType:
            return value is None
        if kind is str:
            return isinstance(value, str) and (not s.choices or value in s.choices)
        if kind is Sequence:
            numbers = value.tolist() if isinstance(value, (np.ndarray, Tensor)) else value
            fits = isinstance(numbers, (list, tuple)) and len(numbers) == (s.length or len(numbers))
            return fits and all(self._fits(each, float) for each in numbers)
        truth = isinstance(value, (bool, np.bool_))
        if kind is bool or truth:  # a truth value is no number
            return truth and kind is bool
        number: Any = value if isinstance(value, Integral if kind is int else Real) else math.nan  # which fits nowhere
        return bool(s.low <= number <= s.high and abs(number) < 1e300 and not (s.below and number == s.high))


def declarations(function: Callable[..., Any]) -> dict[str, Declaration]:
    """The settings of a method, a user's own too: every parameter after the episodes, by name, in their order.

    >>> from protoadapt.core.methods import METHODS
    >>> declarations(METHODS["cipa"])["sigma"].range
    'a number from 0 to 1'
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError) as error:
        raise UserError(f"{function!r} has no readable signature: a method is a function of Episodes") from error
    if all(p.kind in (p.KEYWORD_ONLY, p.VAR_KEYWORD) for p in parameters[:1]):
        name = getattr(function, "__name__", function)
        raise UserError(f"{name} takes no episodes: it must take episodes and return (E, Q, W) probabilities")
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except Exception:  # a user's annotations may be any text
        hints = {}
    named = [p for p in parameters[1:] if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return {p.name: declaration(p.name, p.default, hints.get(p.name)) for p in named}


def declaration(name: str, default: Any, hint: Any, setting: Setting | None = None) -> Declaration:
    """The declaration of a setting whose annotation is `hint`; its Setting is there, or given."""
    if typing.get_origin(hint) is Annotated:
        hint, *more = typing.get_args(hint)
        setting = next((one for one in more if isinstance(one, Setting)), setting)
    kinds = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    lists = (Sequence, list, tuple)
    kinds = tuple(Sequence if typing.get_origin(kind) in lists or kind is Tensor else kind for kind in kinds)
    known = {int, float, bool, str, types.NoneType, Sequence}
    return Declaration(name, default, kinds if known.issuperset(kinds) else (), setting or Setting())


def check_arguments(name: str, function: Callable[..., Any], arguments: Mapping[str, Any]) -> None:
    """Raises UserError for an argument that the method does not take, or a value out of its range."""
    declared, parameters = declarations(function), inspect.signature(function).parameters.values()
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters)
    for key, value in arguments.items():
        if key in declared:
            declared[key].check(value)
        elif not takes_any:
            raise no_such("setting", key, declared, of=name)


def checked(function: F) -> F:
    """A method that checks its arguments against their declarations before it runs."""

    @functools.wraps(function)
    def run(episodes: Any, **arguments: Any) -> Any:
        check_arguments(function.__name__, function, arguments)
        return function(episodes, **arguments)

    return typing.cast(F, run)
