"""The command line in a folder of coloured pictures, with a tiny network."""

import pytest
from helpers import command


@pytest.fixture
def protoadapt(folder, model):
    """protoadapt(*words, code=0): output and error output, of the verbs that need one with the tiny network."""

    def run(*words, code=0):
        named = words[0] not in ("label", "suggest", "check") or "--model" in words
        done = command.run(*words, *(() if named else ("--model", model)), cwd=folder)
        assert done.returncode == code, done.stderr
        return done.stdout, done.stderr

    return run
