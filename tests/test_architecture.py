"""The layout is the architecture: seven layers whose imports point downwards."""

import ast
import re
import sys
import tomllib
from collections import Counter
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

import protoadapt

ROOT = Path(protoadapt.__file__).parent
LAYERS = {
    "core": {"core"},
    "vision": {"core", "vision"},
    "training": {"core", "vision", "training"},
    "labeling": {"core", "vision", "labeling"},
    "report": {"core", "report"},
    "app": {"core", "vision", "labeling", "report", "app"},
    "cli": {"core", "vision", "training", "labeling", "report", "app", "cli"},
}
"""Which layers each may import: a graph, not a line. `labeling` and `training` do not know each other."""
TOOLS = ("errors", "threads", "files", "web", "arrays", "statistics", "provenance")
TASKS = ("prototype_model", "features", "parts", "protocol", "episodes", "methods", "heads")
ANSWERS = ("results", "evaluate", "projection", "partial_labels", "estimators")
CORE = TOOLS + TASKS + ANSWERS
"""Modules of the core: each may import those before it."""
FILES = sorted(file for file in ROOT.rglob("*.py") if file.parent != ROOT or not file.stem.startswith("__"))


def imports(file: Path) -> set[str]:
    """Dotted names that a file imports, whether when it is loaded or inside a function."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found |= {f"{node.module}.{name.name}" for name in node.names}
    return found


def below(names: set[str], package: str) -> set[str]:
    """What follows the package in those names that begin with it: modules, folders or names of its own."""
    return {name.removeprefix(f"{package}.").split(".")[0] for name in names if name.startswith(f"{package}.")}


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(ROOT)))
def test_layers_import_only_what_lies_below(file):
    layer = file.relative_to(ROOT).parts[0]
    assert layer in LAYERS, f"{layer} is a new layer: give it a place in the graph"
    assert below(imports(file), "protoadapt") & LAYERS.keys() <= LAYERS[layer]


def test_modules_of_the_core_import_only_those_before_them():
    for file in (ROOT / "core").rglob("*.py"):
        own = file.relative_to(ROOT / "core").with_suffix("").parts[0]
        if own == "__init__":
            continue
        assert own in CORE, f"{own} is new in the core: give it a place in the order"
        later = below(imports(file), "protoadapt.core") - {own, *CORE[: CORE.index(own)]}
        assert not later, f"{file.name} imports {later}, which comes after it"


def public_names(file: Path) -> set[str]:
    """Functions, classes, constants and types of a module that other modules may import; type variables are letters."""
    names = set()
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            parts = [part for target in targets for part in ast.walk(target)]
            names |= {part.id for part in parts if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
    return {name for name in names if name[0] != "_" and len(name) > 1}


def test_no_public_name_means_two_things():
    counts = Counter(name for file in FILES for name in public_names(file))
    assert [name for name, count in counts.items() if count > 1] == []


def test_no_name_of_a_module_means_two_things():
    names = [file.stem for file in FILES if not file.stem.startswith("__")]
    assert sorted(names) == sorted(set(names))


def test_private_names_stay_in_their_module():
    for file in FILES:
        private = {name for name in imports(file) if re.match(r"protoadapt\.(.*\.)?_(?!_version__)", name)}
        assert not private, f"{file.name} imports {private}"


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(ROOT)))
def test_files_stay_one_room(file):
    assert len(file.read_text().splitlines()) <= 400


def test_what_is_imported_is_named_in_pyproject():
    """Not only brought along by something else, which may stop doing so."""
    tests = Path(__file__).parent
    own = {"protoadapt", "benchmarks", *(path.stem for path in tests.iterdir())}
    where_there = {"pillow_heif", "lightning"}
    imported = {name.split(".")[0] for file in (*FILES, *tests.rglob("*.py")) for name in imports(file)}
    package = packages_distributions()
    needed = [package.get(name, [name]) for name in imported - own - where_there - sys.stdlib_module_names]
    project = tomllib.loads((tests.parent / "pyproject.toml").read_text())["project"]
    listed = [project["dependencies"], *project["optional-dependencies"].values()]
    named = {re.match(r"[\w.-]+", requirement)[0].lower() for group in listed for requirement in group}
    assert not [some for some in needed if named.isdisjoint(name.lower().replace("_", "-") for name in some)]


def test_the_report_computes_and_draws_nothing_itself():
    """It reads result JSON and writes markup: no torch, no matplotlib, no pictures."""
    for file in (ROOT / "report").rglob("*.py"):
        packages = {name.split(".")[0] for name in imports(file)}
        assert not packages & {"torch", "matplotlib", "PIL", "sklearn"}, file.name
