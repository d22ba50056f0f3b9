"""Recipes: functions that return a TrainConfig. Their docstrings give the command, the time and what to expect."""

import inspect
import types
import typing
from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from typing import Any

from protoadapt.core.errors import UserError, unknown
from protoadapt.training import Phase, TrainConfig
from protoadapt.training.objectives import OBJECTIVES
from protoadapt.training.recipes import hct_r as _hct_r
from protoadapt.training.recipes import rows as _rows

RECIPES: dict[str, Callable[..., TrainConfig]] = {
    "classifier_baseline": _rows.classifier_baseline,
    "manifold_mixup": _rows.manifold_mixup,
    "hct": _rows.hct,
    "s2m2_r": _rows.s2m2_r,
    "hct_r": _rows.hct_r,
    "protonet": _rows.protonet,
    "hct_r_fc100": _hct_r.hct_r_fc100,
    "hct_r_mini_imagenet": _hct_r.hct_r_mini_imagenet,
    "hct_r_distilled": _hct_r.hct_r_distilled,
    "hct_r_taught": _hct_r.hct_r_taught,
    "hct_r_tiered_imagenet": _hct_r.hct_r_tiered_imagenet,
    "hct_r_cub": _hct_r.hct_r_cub,
    "hct_r_cub_box": _hct_r.hct_r_cub_box,
    "hct_r_glyphs": _hct_r.hct_r_glyphs,
    "hct_r_paper": _hct_r.hct_r_paper,
}

OF_PHASE: dict[str, Any] = {"until": float, "sampler": str, "teacher": str | None}
"""Settings of a phase beside the weights of its objectives."""


def recipe(name: str, overrides: Iterable[str] = ()) -> TrainConfig:
    """The config of a recipe with "key=value" overrides; "dataset=…" also chooses that dataset's crops and length."""
    if name not in RECIPES:
        raise unknown("recipe", name, RECIPES)
    overrides, function = list(overrides), RECIPES[name]
    chosen = [text.partition("=")[2] for text in overrides if text.partition("=")[0].strip() == "dataset"]
    if chosen and "dataset" in inspect.signature(function).parameters:
        overrides = [text for text in overrides if text.partition("=")[0].strip() != "dataset"]
        return apply_overrides(function(chosen[-1].strip()), overrides)
    return apply_overrides(function(), overrides)


def apply_overrides(config: TrainConfig, overrides: Iterable[str]) -> TrainConfig:
    """A new config with each "key=value" set, the value read as the type of the field.

    A phase is reached by its number from 0: "phases.1.hct=0.5" sets a weight, "phases.1.hct=none" leaves
    the objective out, "phases.0.until=0.5" sets the phase's end.
    """
    types_of = typing.get_type_hints(TrainConfig)
    changes: dict[str, Any] = {}
    inside: dict[int, dict[str, Any]] = {}  # what changes in each phase, to be set at once: a teacher needs "distill"
    for text in overrides:
        key, equals, value = (part.strip() for part in text.partition("="))
        if not equals:
            raise UserError(f"{text!r} is no setting: write key=value, such as epochs=40")
        if key.startswith("phases."):
            number, name = _in_phase(key, len(config.phases))
            kind = OF_PHASE.get(name, float | None)
            inside.setdefault(number, {})[name] = _parse(key, value, kind)
        elif key == "phases":
            raise UserError("phases are set one by one: write phases.N.hct=0.5 or phases.N.until=0.5, N from 0")
        elif key not in types_of:
            raise unknown("setting", key, [f.name for f in fields(TrainConfig)])
        else:
            changes[key] = _parse(key, value, types_of[key])
    phases = tuple(_changed(phase, inside.get(number, {})) for number, phase in enumerate(config.phases))
    return replace(config, **changes, phases=phases)


def _in_phase(key: str, phases: int) -> tuple[int, str]:
    """Which phase "phases.N.NAME" is about, and what of it."""
    _, number, *rest = key.split(".")
    if not (number.isascii() and number.isdigit() and len(number) < 9) or int(number) >= phases or len(rest) != 1:
        raise UserError(f"{key!r} names no phase: write phases.N.hct=0.5 with N from 0 to {phases - 1}")
    if rest[0] not in (*OBJECTIVES, *OF_PHASE):
        raise unknown("objective", rest[0], [*OBJECTIVES, *OF_PHASE])
    return int(number), rest[0]


def _changed(phase: Phase, changes: dict[str, Any]) -> Phase:
    own = {name: value for name, value in changes.items() if name in OF_PHASE}
    weights = {**phase.weights, **{name: value for name, value in changes.items() if name in OBJECTIVES}}
    return replace(phase, **own, weights={name: weight for name, weight in weights.items() if weight is not None})


def _parse(key: str, value: str, kind: Any) -> Any:
    if isinstance(kind, types.UnionType):
        if value.lower() in ("none", "null", ""):
            return None
        kind = next(k for k in typing.get_args(kind) if k is not type(None))
    try:
        if kind is bool:
            return {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}[value.lower()]
        if typing.get_origin(kind) is tuple:
            return tuple(int(part) for part in value.replace("(", "").replace(")", "").split(",") if part.strip())
        if kind is float and "/" in value:
            top, bottom = value.split("/")
            return float(top) / float(bottom)
        return kind(value)
    except (ValueError, KeyError, ZeroDivisionError) as error:
        wanted = {int: "a whole number", float: "a number", bool: "true or false"}.get(kind, "numbers such as 0,1,2")
        raise UserError(f"{key} is {value!r}: it must be {wanted}") from error


__all__ = ["RECIPES", "apply_overrides", "recipe"]
