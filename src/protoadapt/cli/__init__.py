"""The command line, one file per verb. `main` is the entry point."""

import os
import sys
from collections.abc import Callable
from io import TextIOWrapper


def main(command: Callable[[], object] | None = None) -> None:
    """Run a command line and turn its errors into one sentence.

    Exit codes: 0 done; 1 done, with something missing; 2 a mistake of the user; 130 interrupted by Ctrl-C; 143 `train`
    was asked to stop (SIGTERM) and has saved a checkpoint. `command` replaces the verbs of `protoadapt`, which are
    imported here so that Ctrl-C during the import is handled as well.
    """
    # OpenMP threads spin while they wait, which slows everything two- to threefold when another program takes a core.
    # With this they soon sleep. OpenMP reads it once, when torch is loaded; a user's own choice is kept.
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    for stream in (sys.stdout, sys.stderr):  # a terminal that lacks a character must not cause a traceback
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        from protoadapt.core.errors import UserError

        try:
            if command is None:
                from protoadapt.cli.verbs import app

                command = app
            command()
        except UserError as error:
            _fail(str(error))
    except BrokenPipeError:  # the reader of a pipe has seen enough
        sys.stderr.close()
    except OSError as error:
        path = f" {error.filename!r}" if error.filename else ""
        _fail(f"{error.strerror or error}{path}: check the path, its permissions and the free disk space")
    except KeyboardInterrupt:
        sys.exit(130)


def _fail(sentence: str) -> None:
    print(f"error: {sentence}", file=sys.stderr)
    sys.exit(2)
