"""The verbs of `protoadapt`. Their modules import heavy libraries inside the functions, so that help is immediate."""

from importlib import import_module
from typing import Annotated

import typer

from protoadapt import __version__

RESEARCH = ("demo", "data", "recipes", "train", "extract", "manifest", "evaluate", "compare", "tune", "methods")
LABELLING = ("report", "label", "predict", "suggest", "check", "serve", "models", "export")
VERBS = RESEARCH + LABELLING
"""In the order of the help. The verb VERB is the function VERB_command of the module of that name."""

app = typer.Typer(
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
