"""The command line: one command a verb. Errors are one sentence and exit code 2."""

import os
import sys
from collections.abc import Callable
from io import TextIOWrapper
from typing import Annotated

import typer

# OpenMP's threads spin while they wait: beside another program that takes a core, everything is two to three times
# slower. These soon sleep instead. OpenMP reads this once, when torch is loaded; a user's own choice is kept.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")

from protoadapt import __version__
from protoadapt.cli import inference, labeling, models, report, scale, training
from protoadapt.cli.serve_command import serve
from protoadapt.core.errors import UserError

app = typer.Typer(
    help="Few-shot image classification: evaluate, compare and use methods that let unlabelled pictures help.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _say_version(asked: bool) -> None:
    if asked:
        print(f"protoadapt {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_say_version, help="print the version and leave")
    ] = False,
) -> None: ...


for command in (
    training.demo,
    training.data,
    training.recipes,
    training.train,
    training.extract,
    scale.manifest,
    inference.evaluate,
    inference.compare,
    inference.methods,
    report.report,
    labeling.label,
    labeling.predict,
    serve,
    models.models,
    models.export,
    models.calibrate,
):
    app.command()(command)


def main(command: Callable[[], object] = app) -> None:
    """The entry point: a user's mistake is a sentence, not a traceback."""
    for stream in (sys.stdout, sys.stderr):  # a terminal without a letter must not end what was done in a traceback
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        command()
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:  # the reader has seen enough
        sys.stderr.close()
    except OSError as error:
        where = f" {error.filename!r}" if error.filename else ""
        what = error.strerror or str(error)
        print(f"error: {what}{where}: check the path, its rights and the free space", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
