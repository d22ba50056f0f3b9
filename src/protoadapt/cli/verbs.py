"""The verbs of `protoadapt`. Their modules import heavy libraries inside the functions, so that help is immediate."""

from typing import Annotated

import typer

from protoadapt import __version__
from protoadapt.cli.calibrate_command import calibrate
from protoadapt.cli.compare_command import compare
from protoadapt.cli.data_command import data
from protoadapt.cli.demo_command import demo
from protoadapt.cli.evaluate_command import evaluate
from protoadapt.cli.export_command import export
from protoadapt.cli.extract_command import extract
from protoadapt.cli.label_command import label
from protoadapt.cli.manifest_command import manifest
from protoadapt.cli.methods_command import methods
from protoadapt.cli.models_command import models
from protoadapt.cli.predict_command import predict
from protoadapt.cli.recipes_command import recipes
from protoadapt.cli.report_command import report
from protoadapt.cli.serve_command import serve
from protoadapt.cli.train_command import train

VERBS = (
    *(demo, data, recipes, train, extract, manifest, evaluate, compare, methods, report),
    *(label, predict, serve, models, export, calibrate),
)

app = typer.Typer(
    help="Few-shot image classification: train, evaluate and compare methods, and label your own pictures.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
for verb in VERBS:
    app.command()(verb)


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
