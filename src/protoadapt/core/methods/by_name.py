"""Methods by name: "cipa", "cipa(sigma=1, tau=15)", "bpa+cipa" with a transform before it, a user's own
"package.module:function", or a file of settings that `protoadapt tune` wrote."""

import ast
import functools
import pkgutil
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from inspect import Parameter
from pathlib import Path
from typing import Any

from torch import Tensor

from protoadapt.core.episodes import Episodes
from protoadapt.core.errors import UserError, clean_json, intact, no_such
from protoadapt.core.methods.bapa import bapa
from protoadapt.core.methods.bavardage import bavardage
from protoadapt.core.methods.bd_cspn import bd_cspn
from protoadapt.core.methods.cipa import cipa
from protoadapt.core.methods.embedding_propagation import embedding_propagation
from protoadapt.core.methods.fine_tune import transductive_fine_tuning
from protoadapt.core.methods.inductive import matching_net, ridge, simpleshot
from protoadapt.core.methods.laplacian_shot import laplacian_shot
from protoadapt.core.methods.paddle import paddle
from protoadapt.core.methods.prototypes import protonet, semi_protonet, soft_kmeans
from protoadapt.core.methods.pt_map import pt_map
from protoadapt.core.methods.settings import check_arguments, declarations
from protoadapt.core.methods.tim import alpha_tim, tim_adm, tim_gd
from protoadapt.core.methods.transforms import bpa, whiten

METHODS: dict[str, Callable[..., Tensor]] = {
    function.__name__: function
    for function in (
        *(protonet, simpleshot, semi_protonet, cipa, bapa, pt_map, soft_kmeans, bd_cspn, laplacian_shot),
        *(tim_adm, tim_gd, alpha_tim, paddle, bavardage, transductive_fine_tuning),
        *(matching_net, ridge, embedding_propagation),
    )
}
TRANSFORMS: dict[str, Callable[..., Episodes]] = {"bpa": bpa, "whiten": whiten}
"""What can stand before a method: "bpa+cipa"."""


@dataclass(frozen=True)
class Method:
    """A method with its arguments fixed. Call it with `Episodes`; `label` names it in tables."""

    name: str
    function: Callable[..., Tensor]
    arguments: dict[str, Any]

    def __call__(self, episodes: Episodes) -> Tensor:
        return self.function(episodes, **self.arguments)

    @property
    def settings(self) -> dict[str, Any]:
        """Every argument, defaults included."""
        declared = declarations(self.function).values()
        return {one.name: one.default for one in declared if one.default is not Parameter.empty} | self.arguments

    @property
    def label(self) -> str:
        arguments = ", ".join(f"{name}={value}" for name, value in self.arguments.items())
        return f"{self.name}({arguments})" if arguments else self.name

    def for_signed_features(self) -> "Method":
        """The same, with power="auto" where the method would refuse negative features and nobody chose otherwise."""
        refuses = self.settings.get("power") == "strict" and "power" not in self.arguments
        return replace(self, arguments=self.arguments | {"power": "auto"}) if refuses else self


def method(spec: str | Callable[..., Tensor] | Method, **arguments: Any) -> Method:
    """A method with its arguments fixed and checked, to be called with `Episodes`.

    `spec` is a name ("cipa"), a name with arguments ("cipa(sigma=1, tau=15)"), a transform and a method ("bpa+cipa"), a
    user's function or its place ("package.module:function"), a file of settings, or a `Method`; `arguments` win over
    those in `spec`.

    >>> method("cipa(sigma=1)", tau=15).label
    'cipa(sigma=1, tau=15)'
    """
    if isinstance(spec, Method):
        found = spec
    elif not isinstance(spec, str):
        found = Method(getattr(spec, "__name__", "method"), spec, {})
    elif spec.strip().endswith(".json"):
        found = _stored(Path(spec.strip()))
    else:
        *transforms, last = split_specs(spec, "+") or [spec]
        found = _parsed(last, METHODS, "method")
        for transform in reversed(transforms):
            found = _after(_parsed(transform, TRANSFORMS, "transform"), found)
    found = replace(found, arguments={**found.arguments, **arguments})
    check_arguments(found.name, found.function, found.arguments)
    return found


def _parsed(spec: str, registry: Mapping[str, Callable[..., Any]], kind: str) -> Method:
    """A name with settings in brackets: of a method, or of a transform as if it were one."""
    match = re.fullmatch(r"\s*([\w.:]+)\s*(?:\((.*)\))?\s*", spec, re.DOTALL)
    if not match:
        raise UserError(
            f"{spec!r} is not a {kind}: write a name, or a name with settings such as 'cipa(tau=15)'; separate "
            f"methods by commas"
        )
    name, inside = match.groups()
    if ":" not in name and name not in registry:
        raise no_such(kind, name, registry)
    function = registry[name] if name in registry else _imported(name)
    return Method(name, function, parse_assignments(split_specs(inside or "")))


def _after(transform: Method, method: Method) -> Method:
    """The method on transformed episodes, with its own settings; those of the transform are part of the name."""
    check_arguments(transform.name, transform.function, transform.arguments)
    powers = transform.name == "whiten" and "power" in declarations(method.function)
    implied = {"power": "off"} if powers else {}  # `whiten` did that already

    @functools.wraps(method.function)
    def run(episodes: Episodes, **arguments: Any) -> Tensor:
        changed: Any = transform(episodes)
        return method.function(changed, **arguments)

    return Method(f"{transform.label}+{method.name}", run, implied | method.arguments)


def _stored(path: Path) -> Method:
    """The method in a JSON file: a name and settings, checked like any; no code."""
    with intact(f"{str(path)!r} is no file of settings", "make one with `protoadapt tune`"), open(path, "rb") as file:
        content = clean_json(file.read(2**20))  # a longer file is cut, and cannot be read
        name, arguments = content["method"], dict(content["arguments"])
        return Method(name, METHODS[name], arguments)


def split_specs(text: str, separator: str = ",") -> list[str]:
    """Splits at commas, or another separator, that stand outside all brackets.

    >>> split_specs("a, b(x=1, y=(2, 3)), c")
    ['a', 'b(x=1, y=(2, 3))', 'c']
    """
    parts, depth = [""], 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        if character == separator and depth <= 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def parse_value(text: str) -> Any:
    """A number, a truth value, None, a list of numbers, or else the word itself."""
    try:
        return ast.literal_eval({"true": "True", "false": "False", "none": "None"}.get(text, text))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text


def parse_assignments(pairs: list[str]) -> dict[str, Any]:
    """Settings as they are written on the command line.

    >>> parse_assignments(["tau=15", "l2=false"])
    {'tau': 15, 'l2': False}
    """
    settings: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = (part.strip() for part in pair.partition("="))
        if not equals or not re.fullmatch(r"\w+", name):
            raise UserError(f"{pair!r} is not of the form name=value: write for example tau=15")
        if name in settings:
            raise UserError(f"the setting {name!r} is given twice: keep one")
        settings[name] = parse_value(value)
    return settings


def _imported(name: str) -> Callable[..., Any]:
    """A user's "module:function". The module may lie in the current folder, which is searched last, and for this import
    only: files that came with somebody's pictures must not run in place of a package that is missing."""
    before = list(sys.path)
    sys.path.append("")
    try:
        return pkgutil.resolve_name(name)
    except (Exception, SystemExit) as error:  # a user's module may fail in any way
        raise UserError(
            f"the method {name!r} cannot be imported: {type(error).__name__}: {error}; write module:function, and run "
            f"in the module's folder or add that to PYTHONPATH"
        ) from error
    finally:
        sys.path[:] = before
