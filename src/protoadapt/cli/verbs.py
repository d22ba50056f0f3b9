"""The verbs of `protoadapt`. Their modules import heavy libraries inside the functions, so that help is immediate."""

from importlib import import_module
from itertools import chain
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from protoadapt import __version__

PURPOSES = {
    "Pictures": ("label", "predict", "suggest", "check", "serve", "export", "models", "manifest"),
    "Research": ("evaluate", "compare", "tune", "methods", "report"),
    "Training": ("demo", "data", "recipes", "train", "extract"),
}
VERBS = tuple(chain(*PURPOSES.values()))
"""In the order of the help. The verb VERB is the function VERB_command of the module of that name."""


class GroupedVerbs(TyperGroup):
    """Its help lists the verbs by what they are for."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """One section per group."""
        width = formatter.width - max(map(len, VERBS))
        for title, verbs in PURPOSES.items():
            with formatter.section(title):
                formatter.write_dl([(verb, self.commands[verb].get_short_help_str(width)) for verb in verbs])


app = typer.Typer(
    cls=GroupedVerbs,
    help="Few-shot image classification: train, evaluate and compare methods, and label your own pictures.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
for verb in VERBS:
    module = import_module(f"protoadapt.cli.{verb}_command")
    app.command(verb)(getattr(module, f"{verb}_command"))


def _print_version(requested: bool) -> None:
    if requested:
        print(f"protoadapt {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="print the version and exit")
    ] = False,
) -> None: ...
