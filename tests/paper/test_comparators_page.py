"""The table of the comparators: quoted and measured numbers in their places."""

import json

from benchmarks.comparators import SYSTEMS
from paper.comparators_page import NAMES, comparators_section
from paper.quoted import LITERATURE
from protoadapt.training.recipes import RECIPES, earlier_run


def entry(accuracy, difference=None):
    own = {"accuracy": accuracy, "ci95": 0.25, "episodes": 10_000}
    return own | ({"minus_reference": [difference, 0.1]} if difference is not None else {})


def test_no_file_no_section(tmp_path):
    assert comparators_section(tmp_path) == []


def test_own_inference_is_the_head_or_what_the_paper_uses(tmp_path):
    methods = {"protonet": entry(60.0, -20.0), "cipa": entry(70.0), "bapa": entry(71.0)}
    systems = {
        "tpn": {"recipe": "tpn", "results": {"1": {**methods, "tpn": entry(66.0, -4.5)}, "5": methods}, "training": {}},
        "cc_rot": {"recipe": "cc_rot", "results": {"1": methods, "5": methods}, "training": {"seconds": 201.4}},
    }
    document = {"dataset": "cifar-fs", "hardware": "one GPU", "systems": systems}
    (tmp_path / "comparators-cifar-fs.json").write_text(json.dumps(document))
    lines = "\n".join(comparators_section(tmp_path)).splitlines()
    tpn, rotation = (next(line for line in lines if line.startswith(f"| {name} |")) for name in systems)
    cells = [cell.strip() for cell in tpn.split("|")[1:-1]]
    assert cells[:7] == ["tpn", "65.89", "66.00 ± 0.25", "60.00 ± 0.25", "70.00 ± 0.25", "71.00 ± 0.25", "-4.50 ± 0.10"]
    assert cells[7:9] == ["79.38", ""], "a head that cannot answer five shots has no number there"
    cells = [cell.strip() for cell in rotation.split("|")[1:-1]]
    assert cells[1:3] == ["76.09 (WRN-28-10)", "60.00 ± 0.25"]
    assert cells[-1] == "201 s"


def test_systems_and_names_are_known():
    quoted = {row.method for rows in LITERATURE.values() for row in rows}
    assert set(NAMES.values()) <= quoted
    assert set(NAMES) <= set(RECIPES)
    for system in SYSTEMS.values():
        assert system.recipe in RECIPES
        assert system.start in ("", *SYSTEMS)
        assert not earlier_run(system.recipe) or system.start, "a recipe that starts from a network is given one"
