"""Inference methods: Episodes → class probabilities (E, Q, W). One paper, one file; this dict is the registry."""

import ast
import importlib
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from protoadapt.episodes import Episodes
from protoadapt.errors import UserError, unknown
from protoadapt.methods.cipa import cipa
from protoadapt.methods.protonet import protonet
from protoadapt.methods.pt_map import pt_map
from protoadapt.methods.semi_protonet import semi_protonet
from protoadapt.methods.simpleshot import simpleshot
from protoadapt.methods.soft_kmeans import soft_kmeans

METHODS: dict[str, Callable[..., Tensor]] = {
    "protonet": protonet,
    "simpleshot": simpleshot,
    "semi_protonet": semi_protonet,
    "cipa": cipa,
    "pt_map": pt_map,
    "soft_kmeans": soft_kmeans,
}


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
        return method(spec.function, **{**spec.arguments, **arguments})
    if callable(spec):
        name, function = getattr(spec, "__name__", "method"), spec
    else:
        name, function, written = _parse(spec)
        arguments = {**written, **arguments}
    accepted = inspect.signature(function).parameters
    if not any(p.kind is p.VAR_KEYWORD for p in accepted.values()):
        for key in arguments:
            if key not in list(accepted)[1:]:
                raise unknown(f"argument of {name}", key, list(accepted)[1:])
    return Method(name, function, arguments)


def split_specs(text: str) -> list[str]:
    """ "a,b(x=1, y=2),c" → ["a", "b(x=1, y=2)", "c"]: commas inside brackets do not separate."""
    return [part.strip() for part in re.split(r",(?![^(]*\))", text) if part.strip()]


def parse_value(text: str) -> Any:
    """A number, a truth value, None, a list, or else the word itself."""
    try:
        return ast.literal_eval({"true": "True", "false": "False", "none": "None"}.get(text.strip(), text.strip()))
    except (ValueError, SyntaxError):
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


def _find(name: str) -> Callable[..., Tensor]:
    if ":" not in name:
        if name not in METHODS:
            raise unknown("method", name, METHODS)
        return METHODS[name]
    module, _, attribute = name.partition(":")
    try:
        function = getattr(importlib.import_module(module), attribute)
    except ImportError as error:
        raise UserError(f"module {module!r} of method {name!r} cannot be imported: {error}") from error
    except AttributeError as error:
        raise UserError(f"module {module!r} has no function {attribute!r}: check the name after the colon") from error
    if not callable(function):
        raise UserError(f"{name!r} is not a function: a method takes Episodes and returns (E, Q, W) probabilities")
    return function
