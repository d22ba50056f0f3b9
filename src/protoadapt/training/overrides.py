"""Settings as text: "epochs=40", "phases.1.hct=0.5", as the command line takes them with --set."""

import typing
from collections.abc import Iterable
from dataclasses import fields, replace
from types import UnionType
from typing import Any

from protoadapt.core.errors import UserError, no_such
from protoadapt.training.config import Phase, TrainConfig
from protoadapt.training.objectives import OBJECTIVES

# settings of a phase besides the weights of its objectives
OF_PHASE = {name: kind for name, kind in typing.get_type_hints(Phase).items() if name != "weights"}
WORDS = {int: "a whole number", float: "a number", bool: "true or false"}
TRUTH = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


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
    types = typing.get_type_hints(TrainConfig)
    changes: dict[str, Any] = {}
    in_phase: dict[int, dict[str, Any]] = {}  # set at once per phase: a teacher is valid only together with "distill"
    for text in overrides:
        key, value = split_override(text)
        if key.startswith("phases."):
            number, name = _phase_setting(key, len(config.phases))
            in_phase.setdefault(number, {})[name] = _parse(key, value, OF_PHASE.get(name, float | None))
        elif key == "phases":
            raise UserError("phases are set one by one: write phases.N.hct=0.5 or phases.N.until=0.5, N from 0")
        elif key not in types:
            raise no_such("setting", key, [f.name for f in fields(TrainConfig)])
        else:
            changes[key] = _parse(key, value, types[key])
    phases = tuple(_changed(phase, in_phase.get(number, {})) for number, phase in enumerate(config.phases))
    return replace(config, **changes, phases=phases)


def _phase_setting(key: str, phases: int) -> tuple[int, str]:
    """(N, NAME) of "phases.N.NAME"."""
    _, number, *rest = key.split(".")
    if not (number.isascii() and number.isdigit() and len(number) < 9) or int(number) >= phases or len(rest) != 1:
        raise UserError(f"{key!r} names no phase: write phases.N.hct=0.5 with N from 0 to {phases - 1}")
    if rest[0] not in (*OBJECTIVES, *OF_PHASE):
        raise no_such("objective", rest[0], [*OBJECTIVES, *OF_PHASE])
    return int(number), rest[0]


def _changed(phase: Phase, changes: dict[str, Any]) -> Phase:
    own = {name: value for name, value in changes.items() if name in OF_PHASE}
    weights = {**phase.weights, **{name: value for name, value in changes.items() if name in OBJECTIVES}}
    return replace(phase, **own, weights={name: weight for name, weight in weights.items() if weight is not None})


def _parse(key: str, value: str, kind: Any) -> Any:
    if isinstance(kind, UnionType):
        if value.lower() in ("none", "null", ""):
            return None
        kind = next(one for one in typing.get_args(kind) if one is not type(None))
    try:
        if kind is bool:
            return TRUTH[value.lower()]
        if typing.get_origin(kind) is tuple:
            return tuple(int(part) for part in value.replace("(", "").replace(")", "").split(",") if part.strip())
        if kind is float and "/" in value:
            top, bottom = value.split("/")
            return float(top) / float(bottom)
        return kind(value)
    except (ValueError, KeyError, ZeroDivisionError) as error:
        raise UserError(f"{key} is {value!r}: it must be {WORDS.get(kind, 'numbers such as 0,1,2')}") from error
