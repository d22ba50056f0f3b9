"""The layout is the architecture: each room imports only those before it."""

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

import protoadapt

ROOT = Path(protoadapt.__file__).parent
ROOMS = """
errors told files provenance threads episodes methods evaluate data augment backbones checkpoint models features shards
objectives train recipes estimators labeling export report demo reproduce app cli
""".split()  # noqa: SIM905
FILES = sorted(file for file in ROOT.rglob("*.py") if file.parent != ROOT or not file.stem.startswith("__"))


def room(module: str) -> str:
    return module.split(".")[1] if module.count(".") else ""


def imported_rooms(file: Path) -> set[str]:
    """Rooms imported when the file is loaded. What a function imports lazily counts as well."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "protoadapt":
            inside = (
                [f"protoadapt.{name.name}" for name in node.names] if node.module == "protoadapt" else [node.module]
            )
            found |= {room(module) for module in inside}
        elif isinstance(node, ast.Import):
            found |= {room(n.name) for n in node.names if n.name.split(".")[0] == "protoadapt"}
    return found - {""}


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(ROOT)))
def test_rooms_import_only_those_before_them(file):
    part = file.relative_to(ROOT).parts[0].removesuffix(".py")
    assert part in ROOMS, f"{part} is a new room: give it a place in the order"
    later = {r for r in imported_rooms(file) if ROOMS.index(r) > ROOMS.index(part)}
    assert not later, f"{part} imports {later}, which come after it"


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(ROOT)))
def test_files_stay_one_room(file):
    assert len(file.read_text().splitlines()) <= 400


def test_what_is_imported_is_named_in_pyproject():
    """Not only brought along by something else, which may stop doing so."""
    tests = Path(__file__).parent
    own, where_there = {"protoadapt", *(path.stem for path in tests.iterdir())}, {"pillow_heif", "lightning"}
    imported = set()
    for file in (*FILES, *tests.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                imported |= {name.name.split(".")[0] for name in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                imported.add((node.module or "").split(".")[0])
    package = packages_distributions()
    needed = [package.get(name, [name]) for name in imported - own - where_there - sys.stdlib_module_names]
    project = tomllib.loads((tests.parent / "pyproject.toml").read_text())["project"]
    listed = [project["dependencies"], *project["optional-dependencies"].values()]
    named = {re.match(r"[\w.-]+", requirement)[0].lower() for group in listed for requirement in group}
    assert not [some for some in needed if named.isdisjoint(name.lower().replace("_", "-") for name in some)]
