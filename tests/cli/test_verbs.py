"""All verbs: help that loads nothing heavy, options that mean the same everywhere, and errors as one sentence."""

import importlib
import json
import re
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers.command import refused, run
from typer.main import get_command

import protoadapt
from benchmarks.synthetic import synthetic_features
from protoadapt import save_features
from protoadapt.cli import EXTRAS, main
from protoadapt.cli.verbs import VERBS, app
from protoadapt.report.tables import TABLE_FORMATS
from protoadapt.training.datasets.registry import DATASETS

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
    done = subprocess.run([sys.executable, "-c", LOADED, *VERBS], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"protoadapt {protoadapt.__version__}\n")
    assert all(f"protoadapt {name}" in done.stdout or f"-c {name}" in done.stdout for name in VERBS)
    loaded = set(done.stderr.split())
    assert "protoadapt.cli.verbs" in loaded
    assert not HEAVY & loaded


@pytest.mark.parametrize("words", [("--out", ""), ("--out=",), ("--images", "", "--out", "named")])
def test_an_empty_word_is_not_the_present_folder(tmp_path, words):
    """As where a variable is not set: label --out "$RESULTS"."""
    assert f"nothing is given for {words[0].strip('=')}" in refused("label", *words, "--support", "x", cwd=tmp_path)


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
    assert (done.returncode, done.stdout) == (130, "")
    assert "Traceback" not in done.stderr


def test_every_command_has_a_summary_that_fits(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    shown = run("--help").stdout
    sections = re.findall(r"^(\w+):\n((?:  .*\n)+)", shown, re.MULTILINE)
    assert [title for title, _ in sections] == ["Options", "Pictures", "Research", "Training"]
    lines = [line for _, verbs in sections[1:] for line in verbs.splitlines()]
    assert [line.split()[0] for line in lines] == [*COMMANDS] == [*VERBS]
    assert not [line for line in lines if line.endswith("...") or len(line.split()) < 3]


def test_every_option_has_help_which_is_the_same_everywhere():
    own = {("--set", "train")}  # of a run, not of a method
    helps: dict[str, set[str]] = {}
    for name, command in COMMANDS.items():
        for parameter in command.params:
            assert len((parameter.help or "").split()) > 1, (name, parameter.name)
            for option in parameter.opts:
                if (option, name) not in own:
                    helps.setdefault(option, set()).add(parameter.help)
    for option in ("--device", "--data", "--set", "--skip-corrupt", "--way", "--json", "--seed"):
        assert len(helps[option]) == 1, option


def test_values_that_are_written_out_are_those_of_the_code():
    """Help must not load them."""
    (dataset,) = [p.help for p in COMMANDS["extract"].params if p.name == "dataset"]
    assert set(dataset.removeprefix("dataset: ").replace(" or", ",").split(", ")) == set(DATASETS)


PLAIN = """
import contextlib, io, json, sys
from importlib.machinery import PathFinder
from protoadapt.cli import EXTRAS, main

class Plain(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in EXTRAS else super().find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Plain
said = []
for words in json.loads(sys.stdin.read()):
    sys.argv[1:], out, code = words, io.StringIO(), 0
    with contextlib.redirect_stderr(out), contextlib.redirect_stdout(io.StringIO()):
        try:
            main()
        except SystemExit as ended:
            code = ended.code or 0
    said.append((code, out.getvalue()))
print(json.dumps(said))
"""
"""Runs command lines where no module of an extra can be imported."""


def test_a_plain_install_says_which_extra_a_verb_needs(tmp_path):
    """Verbs on feature files, results and lists need none; all others say which in one sentence."""
    rows = np.random.default_rng(0).random((60, 4))
    np.savez(tmp_path / "f.npz", features=rows, labels=np.repeat(np.arange(6), 10))
    table, result = str(tmp_path / "f.npz"), str(tmp_path / "r.json")
    made = str(tmp_path / "made.safetensors")
    save_features(Path(made), replace(synthetic_features(classes=8, rows=40), metadata={"weights": "w"}))
    few = ("--episodes", "3", "--query", "2")
    places = ("--support", "s", "--images", "i", "--out", "o")
    works = [
        ("methods",),
        ("models",),
        ("evaluate", table, *few, "--json", result),
        ("compare", table, *few),
        ("tune", table, "--method", "paddle", *few, "--out", str(tmp_path / "t.json")),
        ("report", result, "--out", str(tmp_path / "r.html")),
    ]
    needs = {
        ("demo", "--out", str(tmp_path / "d")): "train",
        ("data", "--dataset", "cub", "--data", "d"): "label",
        ("recipes",): "label",
        ("train", "hct_r", "--data", "d", "--out", str(tmp_path / "t")): "train",
        ("extract", "lite0", "--images", "i", "--out", str(tmp_path / "x.safetensors")): "label",
        ("extract", "lite0", "--manifest", "m.jsonl", "--out", str(tmp_path / "x")): "label",
        ("manifest", "i", "--out", str(tmp_path / "m.jsonl")): "label",
        ("label", *places): "label",
        ("predict", "c.safetensors", "i"): "label",
        ("suggest", *places[2:]): "label",
        ("check", "i", "--out", "o"): "label",
        ("serve",): "app",
        ("export", "lite0", "--out", str(tmp_path / "x.onnx")): "onnx",
    }
    assert {words[0] for words in (*works, *needs)} == set(VERBS)
    lines = json.dumps([*works, *needs])
    done = subprocess.run([sys.executable, "-c", PLAIN], input=lines, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert [one for one in said[: len(works)] if one != [0, ""]] == []
    for (words, extra), (code, error) in zip(needs.items(), said[len(works) :]):
        assert (code, error.count("\n")) == (2, 1), (words, error)
        way_out = f"pip install -c constraints.txt '.[{extra}]' in protoadapt's source folder\n"
        assert error.endswith(f"is not installed: {way_out}"), (words, error)
    assert set(EXTRAS.values()) >= {"label", "app", "train", "onnx"}


def test_another_missing_module_is_no_extra():
    def wrong():
        importlib.import_module("no_module_of_this_name")

    with pytest.raises(ModuleNotFoundError):
        main(wrong)


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("[enforce fail at alloc_cpu.cpp:1] DefaultCPUAllocator: can't allocate memory: you tried …"),
        ImportError("lib.so: failed to map segment from shared object"),
        RuntimeError("can't start new thread"),
        RuntimeError("could not create a primitive"),
        OSError(24, "Too many open files"),
    ],
)
def test_a_machine_out_of_memory_or_descriptors_is_a_sentence(error, capsys):
    def short():
        raise error

    with pytest.raises(SystemExit) as ended:
        main(short)
    assert ended.value.code == 2
    words = "hardly any file descriptor is left" if isinstance(error, OSError) else "there is not enough memory"
    assert capsys.readouterr().err.startswith(f"error: {words}")


def test_a_warning_of_ours_is_a_note_and_another_says_where_it_comes_from():
    run("--version")
    ours = warnings.formatwarning("a piece is broken", UserWarning, protoadapt.__file__, 7)
    assert ours == "note: a piece is broken\n"
    assert warnings.formatwarning("old", UserWarning, "/x/torch.py", 7) == "/x/torch.py:7: UserWarning: old\n"
    assert "7: FutureWarning: old" in warnings.formatwarning("old", FutureWarning, protoadapt.__file__, 7)


def test_a_verb_replaces_files_of_its_own_kind_only(folder, model):
    small = ("f.safetensors", "--way", 2, "--query", 1, "--episodes", 3)
    for words in (
        ("extract", model, "--images", "support", "--out", "f.safetensors"),
        ("evaluate", *small, "--json", "r.json"),
        ("compare", *small, "--json", "c.json"),
        ("tune", *small, "--out", "t.json"),
        ("report", "r.json", "c.json", "--out", "page"),
        *(("report", "r.json", "c.json", "--format", form, "--out", f"table {form}") for form in TABLE_FORMATS),
        ("manifest", "images", "--out", "m"),
        ("export", model, "--out", "m.onnx"),
    ):
        out = folder / words[-1]
        for _ in range(2):  # the second time over its own file
            assert run(*words, cwd=folder).returncode == 0, words
        made = out.read_bytes()
        out.write_bytes(model.read_bytes())
        assert "was not written by this command and would be replaced" in refused(*words, cwd=folder)
        assert out.read_bytes() == model.read_bytes()
        out.write_bytes(made)
