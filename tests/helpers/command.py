"""`protoadapt …` in this process: a process of its own takes seconds to load torch."""

import io
import os
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from subprocess import CompletedProcess
from unittest import mock

from protoadapt.cli import main


def run(*words: object, cwd: Path | str = ".", encoding: str = "utf-8", program=None) -> CompletedProcess:
    """The entry point with these words in `cwd`: exit code, output and error output as of a process.

    `encoding` is the terminal's; `program` a command line other than protoadapt's.
    """
    argv = ["protoadapt", *map(str, words)]
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding, "strict", write_through=True) for _ in range(2))
    modules, code = set(sys.modules), 0
    patches = mock.patch.object(sys, "argv", argv), mock.patch.object(sys, "path", list(sys.path))
    with patches[0], patches[1], mock.patch.dict(os.environ), chdir(cwd), redirect_stdout(out), redirect_stderr(err):
        try:
            main(program)
        except SystemExit as ended:
            code = ended.code or 0
    for name in set(sys.modules) - modules:  # a user's own modules, which another test may have by the same name
        file = getattr(sys.modules[name], "__file__", None)
        if file and Path(file).resolve().parent == Path(cwd).resolve():  # not an environment that lies below
            del sys.modules[name]
    return CompletedProcess(argv, code, *(stream.buffer.getvalue().decode(encoding) for stream in (out, err)))


def answered(*words: object, cwd: Path | str = ".") -> str:
    """The output of a command line that ends well."""
    done = run(*words, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout


def refused(*words: object, cwd: Path | str = ".") -> str:
    """The one sentence with which a command line is refused: exit code 2, and nothing on standard output."""
    done = run(*words, cwd=cwd)
    assert (done.returncode, done.stdout) == (2, ""), (words, done)
    assert done.stderr.startswith("error: "), words
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr
