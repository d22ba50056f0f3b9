"""Help: every verb and every option has it, shared options mean the same everywhere, and nothing heavy is loaded."""

import inspect
import subprocess
import sys

import pytest
from helpers.command import run
from typer.main import get_command

from protoadapt.cli.manifest_command import manifest
from protoadapt.cli.verbs import VERBS, app
from protoadapt.training.datasets.registry import DATASETS
from protoadapt.vision import shards

NAMES = list(VERBS)
COMMANDS = get_command(app).commands
HEAVY = {"torch", "numpy", "scipy", "sklearn", "numba", "matplotlib", "PIL", "rich.progress", "safetensors"}

LOADED = """
import sys
from protoadapt.cli import main
for words in (["--version"], ["--help"], *([verb, "--help"] for verb in sys.argv[1:])):
    sys.argv[1:] = words
    try:
        main()
    except SystemExit as ended:
        assert not ended.code, words
print(*sorted(set(sys.modules)), file=sys.stderr)
"""


def test_help_of_all_verbs_loads_nothing_heavy():
    done = subprocess.run([sys.executable, "-c", LOADED, *NAMES], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert all(f"protoadapt {name}" in done.stdout or f"-c {name}" in done.stdout for name in NAMES)
    loaded = set(done.stderr.split())
    assert "protoadapt.cli.verbs" in loaded
    assert not HEAVY & loaded


@pytest.mark.parametrize("when", ["typer", "torch"])
def test_ctrl_c_during_imports_is_no_traceback(when):
    probe = (
        "import os, signal, sys\n"
        "class Interrupt:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {when!r}:\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupt())\n"
        "sys.argv = ['protoadapt', 'methods']\n"
        "from protoadapt.cli import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True)
    assert done.returncode == 130
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


def test_the_verbs_are_those_of_the_design():
    design = "demo data recipes train extract manifest evaluate compare tune methods report label predict suggest check"
    assert [*COMMANDS] == [*design.split(), "serve", "models", "export", "calibrate"] == NAMES


def test_every_command_has_a_summary_that_fits(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    shown = run("--help").stdout
    lines = shown[shown.index("Commands:") :].splitlines()[1:]
    assert [line.split()[0] for line in lines] == NAMES
    assert not [line for line in lines if line.endswith("...") or len(line.split()) < 3]


@pytest.mark.parametrize("name", NAMES)
def test_every_option_has_help(name):
    hidden = {"accelerator", "as_json", "as_csv"} | ({"name"} if name == "data" else set())  # old spellings
    silent = {parameter.name for parameter in COMMANDS[name].params if not parameter.help}
    assert silent <= hidden
    assert all(len(parameter.help.split()) > 1 for parameter in COMMANDS[name].params if parameter.name not in silent)


@pytest.mark.parametrize("option", ["--device", "--data", "--set", "--skip-corrupt", "--way", "--json", "--seed"])
def test_an_option_means_the_same_everywhere(option):
    own = {("--seed", "train"), ("--set", "train"), ("--json", "predict")}  # of a run, not of a method; an old spelling
    helps = {
        parameter.help
        for name, command in COMMANDS.items()
        for parameter in command.params
        if option in parameter.opts and (option, name) not in own
    }
    assert len(helps) == 1


def test_values_that_are_written_out_are_those_of_the_code():
    """Help must not load them."""
    (dataset,) = [p.help for p in COMMANDS["extract"].params if p.name == "dataset"]
    assert set(dataset.removeprefix("dataset: ").replace(" or", ",").split(", ")) == set(DATASETS)
    assert inspect.signature(manifest).parameters["shard_size"].default == shards.SHARD_SIZE
