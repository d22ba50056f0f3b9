"""Inference methods: Episodes → class probabilities (E, Q, W). One paper, one file; this dict is the registry."""

import ast
import importlib
import inspect
import re
import sys
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from protoadapt.core.episodes import Episodes
from protoadapt.core.errors import UserError, unknown
from protoadapt.core.methods.alpha_tim import alpha_tim
from protoadapt.core.methods.bapa import bapa
from protoadapt.core.methods.bd_cspn import bd_cspn
from protoadapt.core.methods.cipa import cipa
from protoadapt.core.methods.fine_tune import transductive_fine_tuning
from protoadapt.core.methods.ici import lr_ici
from protoadapt.core.methods.ilpc import ilpc
from protoadapt.core.methods.laplacian_shot import laplacian_shot
from protoadapt.core.methods.protonet import protonet
from protoadapt.core.methods.pt_map import pt_map
from protoadapt.core.methods.semi_protonet import semi_protonet
from protoadapt.core.methods.simpleshot import simpleshot
from protoadapt.core.methods.soft_kmeans import soft_kmeans
from protoadapt.core.methods.tim import tim_adm, tim_gd

METHODS: dict[str, Callable[..., Tensor]] = {
    "protonet": protonet,
    "simpleshot": simpleshot,
    "semi_protonet": semi_protonet,
    "cipa": cipa,
    "bapa": bapa,
    "pt_map": pt_map,
    "soft_kmeans": soft_kmeans,
    "bd_cspn": bd_cspn,
    "laplacian_shot": laplacian_shot,
    "tim_adm": tim_adm,
    "tim_gd": tim_gd,
    "alpha_tim": alpha_tim,
    "transductive_fine_tuning": transductive_fine_tuning,
    "lr_ici": lr_ici,
    "ilpc": ilpc,
}

NEED_BASE_MEAN = frozenset({"simpleshot", "bd_cspn", "laplacian_shot"})
"""Methods that centre by the mean of the base classes' features."""


@dataclass(frozen=True)
class Method:
    """A function with its arguments fixed, and the words that name it."""

    name: str
    function: Callable[..., Tensor]
    arguments: dict[str, Any]

    def __call__(self, episodes: Episodes) -> Tensor:
        return self.function(episodes, **self.arguments)

    @property
    def settings(self) -> dict[str, Any]:
        """Every argument, the defaults included."""
        parameters = list(inspect.signature(self.function).parameters.values())[1:]
        defaults = {p.name: p.default for p in parameters if p.default is not p.empty}
        return {**defaults, **self.arguments}

    @property
    def label(self) -> str:
        given = ", ".join(f"{name}={value}" for name, value in self.arguments.items())
        return f"{self.name}({given})" if given else self.name


def method(spec: str | Callable[..., Tensor] | Method, **arguments: Any) -> Method:
    """A method from a function, from a name ("cipa", "cipa(sigma=1, tau=15)") or from "package.module:function"."""
    if isinstance(spec, Method):
        name, function, arguments = spec.name, spec.function, {**spec.arguments, **arguments}
    elif callable(spec):
        name, function = getattr(spec, "__name__", "method"), spec
    else:
        name, function, written = _parse(spec)
        arguments = {**written, **arguments}
    _check_arguments(name, function, arguments)
    return Method(name, function, arguments)


def _check_arguments(name: str, function: Callable[..., Tensor], arguments: dict[str, Any]) -> None:
    """Names that the function takes, values of the plain types that its annotations allow."""
    hints: dict[str, Any] = {}
    try:
        parameters = inspect.signature(function).parameters
        hints = typing.get_type_hints(function)
    except (NameError, TypeError):  # annotations that mean nothing here
        pass
    except ValueError as error:
        raise UserError(f"{name!r} does not tell its arguments: a method is a function of Episodes") from error
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return
    for key, value in arguments.items():
        if key not in list(parameters)[1:]:
            raise unknown(f"argument of {name}", key, list(parameters)[1:])
        hint: Any = hints.get(key)
        allowed: set[Any] = set(typing.get_args(hint)) if isinstance(hint, types.UnionType) else {hint}
        if allowed <= {int, float, bool, str, type(None)} and not any(_is_a(value, kind) for kind in allowed):
            words = " or ".join(sorted("none" if kind is type(None) else kind.__name__ for kind in allowed))
            raise UserError(f"{key}={value!r} does not fit {name}: {key} takes a value of type {words}")


def _is_a(value: Any, kind: type) -> bool:
    """Whole numbers are floats too; truth values are no numbers; NaN and infinity are no settings."""
    if kind is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e300
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def split_specs(text: str) -> list[str]:
    """ "a,b(x=1, y=2),c" → ["a", "b(x=1, y=2)", "c"]: commas inside brackets do not separate."""
    return [part.strip() for part in re.split(r",(?![^(]*\))", text) if part.strip()]


def parse_value(text: str) -> Any:
    """A number, a truth value, None, a list, or else the word itself."""
    try:
        return ast.literal_eval({"true": "True", "false": "False", "none": "None"}.get(text.strip(), text.strip()))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text.strip()


def parse_assignments(pairs: list[str]) -> dict[str, Any]:
    """["tau=15", "l2=false"] → {"tau": 15, "l2": False}"""
    for pair in pairs:
        if not re.fullmatch(r"\s*\w+\s*=.*", pair, re.DOTALL):
            raise UserError(f"{pair!r} is not of the form name=value: write for example tau=15")
    return {key.strip(): parse_value(value) for key, value in (pair.split("=", 1) for pair in pairs)}


def _parse(spec: str) -> tuple[str, Callable[..., Tensor], dict[str, Any]]:
    match = re.fullmatch(r"\s*([\w.:]+)\s*(?:\((.*)\))?\s*", spec, re.DOTALL)
    if not match:
        raise UserError(f"{spec!r} is not a method: write a name, or a name with arguments such as 'cipa(tau=15)'")
    name, inside = match.groups()
    pairs = re.split(r",(?![^\[]*\])", inside) if inside and inside.strip() else []
    return name, _find(name), parse_assignments(pairs)


def _imported(module: str) -> types.ModuleType:
    """A user's module may lie in the current folder. That folder is looked into last, and for this import only: files
    that came with somebody's pictures must not run in place of a package that is missing."""
    before = list(sys.path)
    sys.path.append("")
    try:
        return importlib.import_module(module)
    finally:
        sys.path[:] = before


def _find(name: str) -> Callable[..., Tensor]:
    if ":" not in name:
        if name not in METHODS:
            raise unknown("method", name, METHODS)
        return METHODS[name]
    module, _, attribute = name.partition(":")
    try:
        function = getattr(_imported(module), attribute)
    except AttributeError as error:
        raise UserError(f"module {module!r} has no function {attribute!r}: check the name after the colon") from error
    except (Exception, SystemExit) as error:  # a user's module may fail in any way
        raise UserError(
            f"module {module!r} of method {name!r} cannot be imported: {type(error).__name__}: {error}"
        ) from error
    if not callable(function):
        raise UserError(f"{name!r} is not a function: a method takes Episodes and returns (E, Q, W) probabilities")
    return function
