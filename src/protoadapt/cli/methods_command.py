"""`protoadapt methods`."""

import inspect
import re
import sys
from collections.abc import Callable
from textwrap import fill
from typing import Annotated

from protoadapt.cli.options import argument


def methods_command(
    name: Annotated[str, argument("describe only this method, or package.module:function", "NAME")] = "",
) -> None:
    """List the inference methods and their settings.

    The names are those of `evaluate --method` and `compare --methods`; `label --method` takes bapa, cipa, protonet,
    semi_protonet, soft_kmeans and pt_map. Each setting is printed as --set takes it, with its default, its meaning and
    its range.
    """
    from protoadapt.core.methods import METHODS, method
    from protoadapt.core.methods.settings import declarations

    chosen = {name: method(name).function} if name else METHODS
    for label, function in chosen.items():
        print(label)
        print(fill(_summary(function), 100, initial_indent="  ", subsequent_indent="  "))
        for setting in declarations(function).values():
            allowed = f" ({setting.range})" if setting.range else ""
            words = f"{setting.name}={_written(setting.default)}: {setting.help}{allowed}"
            print(fill(words, 100, initial_indent="    ", subsequent_indent=" " * 8))
        print()


def _summary(function: Callable[..., object]) -> str:
    """The paper, from the module's docstring, and the first paragraph of the function's."""
    docs = (inspect.getdoc(sys.modules[function.__module__]), inspect.getdoc(function))
    text = " ".join((doc or "").split("\n\n")[0] for doc in docs)
    return " ".join(re.sub(r"Returns \(E,\s+Q,\s+W\).*", "", text, flags=re.DOTALL).split())


def _written(default: object) -> str:
    """A default as it is written on the command line."""
    if default is inspect.Parameter.empty:
        return "VALUE"
    return str(default).lower() if default is None or isinstance(default, bool) else str(default)
