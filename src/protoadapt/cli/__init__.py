"""The command line, one file per verb. `main` is the entry point."""

import os
import re
import sys
import warnings
from collections.abc import Callable, Sequence
from io import TextIOWrapper
from itertools import pairwise
from pathlib import Path


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
    warnings.formatwarning = _plain_note
    try:
        from protoadapt.core.errors import UserError

        try:
            if command is None:
                _refuse_empty(sys.argv)
                from protoadapt.cli.verbs import app

                command = app
            command()
        except UserError as error:
            _fail(str(error))
    except BrokenPipeError:  # the reader of a pipe has seen enough
        sys.stderr.close()
    except OSError as error:
        path = f" {error.filename!r}" if error.filename else ""
        _fail(_lack(error) or f"{error.strerror or error}{path}: check the path, its permissions and the disk space")
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        if not (sentence := _absent(error, sys.argv[1:2]) or _lack(error)):
            raise
        _fail(sentence)


def _refuse_empty(words: Sequence[str]) -> None:
    """A variable of the shell that is not set gives an empty word, and an empty path would be the present folder."""
    for before, word in pairwise(words):
        option = word.removesuffix("=") or before
        if re.fullmatch("(--[a-z-]+=)?", word) and option != "--url":
            _fail(f"nothing is given for {option}: give a value (is a variable of your shell not set?)")


def _plain_note(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    """A warning of this package for people; others say where in the code they come from, as usual."""
    if category is UserWarning and Path(filename).is_relative_to(Path(__file__).parents[1]):
        return f"note: {message}\n"
    return f"{filename}:{lineno}: {category.__name__}: {message}\n"


EXTRAS = {
    **dict.fromkeys(("fastapi", "python_multipart", "starlette", "uvicorn"), "app"),
    **dict.fromkeys(("lightning_fabric", "matplotlib"), "train"),
    **dict.fromkeys(("onnx", "onnxscript"), "onnx"),
    "PIL": "label",
    "onnxruntime": "label",
    "pyarrow": "scale",
    "ray": "ray",
    **dict.fromkeys(("huggingface_hub", "timm"), "timm"),
}
"""The extra that brings each module which a plain install lacks."""
_PICTURES = {"demo": "train", "export": "onnx", "serve": "app", "train": "train"}
"""The extra that brings pillow and all else that a verb needs, where it is another."""


def _absent(error: Exception, verb: list[str]) -> str:
    """The sentence for a module that belongs to an extra which is not installed; "" for any other error."""
    module = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if module not in EXTRAS:
        return ""
    from protoadapt.core.errors import install

    extra = _PICTURES.get("".join(verb), "label") if module == "PIL" else EXTRAS[module]
    package = {"PIL": "pillow", "python_multipart": "python-multipart"}.get(module, module)
    return f"this needs {package}, which is not installed: {install(extra)}"


LACK = {
    r"allocat|MemoryError|failed to map segment|start new thread|could not create a primitive(?! desc)": (
        "there is not enough memory: close other programs, or give fewer or smaller files at a time"
    ),
    "too many open files": "hardly any file descriptor is left: raise the limit (ulimit -n 1024)",
}
"""How libraries speak of what a machine has run out of, and the sentence for it."""


def _lack(error: BaseException | None) -> str:
    """The sentence for an error of a machine that has run out of something, whatever a library made of it; or ""."""
    while error is not None:
        for words, sentence in LACK.items():
            if re.search(words, repr(error), re.IGNORECASE):
                return sentence
        error = error.__cause__ or error.__context__
    return ""


def _fail(sentence: str) -> None:
    print(f"error: {sentence}", file=sys.stderr)
    sys.exit(2)
