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
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Annotated, Any, TypeVar

import numpy as np
from torch import Tensor

from protoadapt.core.errors import UserError, no_such

F = TypeVar("F", bound=Callable[..., Any])
CENTERS = ("none", "separate", "joint", "support")


@dataclass(frozen=True)
class Setting:
    """One line of help; the range of a number or of each of several, or the words to choose from; and, once declared
    (`declarations`), its name, default and type."""

    help: str = ""
    low: float = -math.inf
    high: float = math.inf
    choices: tuple[str, ...] = ()
    length: int | None = None  # of a sequence of numbers
    below: bool = False  # `high` itself is out of range
    name: str = ""
    default: Any = inspect.Parameter.empty
    kinds: tuple[Any, ...] = ()  # the plain types that the annotation allows; () where it says nothing to be checked

    @property
    def range(self) -> str:
        """What values fit, in words."""
        bounds = f" from {self.low:g} to {'below ' * self.below}{self.high:g}" if self.high < math.inf else ""
        whole = f" from {self.low:g} to {self.high:,.0f}" if bounds else ""
        word = f"one of {', '.join(self.choices)}" if len(self.choices) > 1 else "".join(self.choices) or "a word"
        words = {
            str: word,
            Sequence: f"{self.length or 'a list of'} numbers{bounds}",
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
        if kind is types.NoneType:
            return value is None
        if kind is str:
            return isinstance(value, str) and (not self.choices or value in self.choices)
        if kind is Sequence:
            numbers = value.tolist() if isinstance(value, (np.ndarray, Tensor)) else value
            fits = isinstance(numbers, (list, tuple)) and len(numbers) == (self.length or len(numbers))
            return fits and all(self._fits(each, float) for each in numbers)
        truth = isinstance(value, (bool, np.bool_))
        if kind is bool or truth:  # a truth value is no number
            return truth and kind is bool
        number: Any = value if isinstance(value, Integral if kind is int else Real) else math.nan  # which fits nowhere
        inside = self.low <= number <= self.high and not (self.below and number == self.high)
        return bool(inside and abs(number) < 1e300)


Steps = Annotated[int, Setting("number of adaptation steps", 0, 100_000)]
StepSize = Annotated[float, Setting("step size σ: weight of the new estimate in each update", 0, 1)]
LogitScale = Annotated[float, Setting("inverse temperature τ: factor of the logits", 1e-6, 1e6)]
MetricScale = Annotated[
    float | None, Setting("inverse temperature τ of the metric; none: 10 (cosine) or 1 (euclid)", 1e-6, 1e6)
]
DistanceScale = Annotated[float, Setting("factor λ of the squared distance before the softmax", 1e-6, 1e6)]
TransportScale = Annotated[float, Setting("factor λ of the squared distance in the transport's kernel", 1e-6, 30)]
Exponent = Annotated[float, Setting("β, exponent of the power transform", 1e-3, 10)]
POWERS = (
    "power transform: strict takes (x + 1e-6)^β and refuses negative features, auto takes −|x|^β for those, off leaves "
    "it out"
)
Power = Annotated[str, Setting(POWERS, choices=("strict", "auto", "off"))]
WHICH_MEAN = "mean to subtract: separate (support and unlabelled rows each their own), joint, support or none"
Center = Annotated[str, Setting(WHICH_MEAN, choices=CENTERS)]
QueryCenter = Annotated[
    str, Setting("mean to subtract from queries beside unlabelled rows: none or theirs", choices=("none", "unlabeled"))
]
UnitLength = Annotated[bool, Setting("scale centred rows to unit length")]
PseudoRows = Annotated[
    float, Setting("κ: with K labelled rows a prototype is shrunk as by κ/√K more rows at the centre", 0, 1e6)
]
Metric = Annotated[str, Setting("similarity to the prototypes", choices=("cosine", "euclid"))]
Shares = Sequence[float] | Tensor | str | None
ClassPrior = Annotated[
    Shares,
    Setting("class sizes of the queries: equal, or a share per class; none: the method's own", 1e-9, 1e9, ("equal",)),
]
LossWeights = Annotated[
    Sequence[float], Setting("weights of the support cross-entropy, H(Y) and H(Y|X)", 0, 1e3, length=3)
]
LearningRate = Annotated[float, Setting("learning rate", 1e-9, 10)]


def declarations(function: Callable[..., Any]) -> dict[str, Setting]:
    """The settings of a method, a user's own too: every parameter after the episodes, by name, in their order.

    >>> from protoadapt.core.methods import METHODS
    >>> declarations(METHODS["cipa"])["sigma"].range
    'a number from 0 to 1'
    """
    try:
        _, *parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError) as error:
        name = getattr(function, "__name__", function)
        raise UserError(f"{name} is not a function of episodes, which returns (E, Q, W) probabilities") from error
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except Exception:  # a user's annotations may be any text
        hints = {}
    named = [p for p in parameters if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return {p.name: declaration(p.name, p.default, hints.get(p.name)) for p in named}


def declaration(name: str, default: Any, hint: Any, setting: Setting | None = None) -> Setting:
    """The declaration of a setting whose annotation is `hint`; its Setting is there, or given."""
    if typing.get_origin(hint) is Annotated:
        hint, *more = typing.get_args(hint)
        setting = next((one for one in more if isinstance(one, Setting)), setting)
    kinds = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    lists = (Sequence, list, tuple)
    kinds = tuple(Sequence if typing.get_origin(kind) in lists or kind is Tensor else kind for kind in kinds)
    known = {int, float, bool, str, types.NoneType, Sequence}
    kinds = kinds if known.issuperset(kinds) else ()
    return replace(setting or Setting(), name=name, default=default, kinds=kinds)


def check_arguments(name: str, function: Callable[..., Any], arguments: Mapping[str, Any]) -> None:
    """Raises UserError for an argument that the method does not take, or a value out of its range."""
    declared = declarations(function)
    for key, value in arguments.items():
        if key not in declared:
            raise no_such("setting", key, declared, of=name)
        declared[key].check(value)


def checked(function: F) -> F:
    """A method that checks its arguments against their declarations before it runs, on episodes of an ordinary size."""

    @functools.wraps(function)
    def run(episodes: Any, **arguments: Any) -> Any:
        check_arguments(function.__name__, function, arguments)
        return function(episodes.ordinary(), **arguments)

    return typing.cast(F, run)
