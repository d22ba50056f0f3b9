"""Shipped networks and results: cards state what the result files state, and a published row is computed again.

PROTOADAPT_DATA=DIR pytest tests/test_shipped.py      DIR holds CUB_200_2011 or CUB's class folders, full size
"""

import json
import os
import re
from hashlib import sha256
from pathlib import Path

import pytest

from paper.main_plans import CHOSEN, CUB_WHOLE_EPNET, THREE, WIDE_EPNET, WIDE_SECOND_EPNET
from paper.plan import Run
from protoadapt import Protocol
from protoadapt.core.evaluate import evaluate
from protoadapt.core.results import RESULT, read_results
from protoadapt.training.datasets import load_images
from protoadapt.training.datasets.registry import search
from protoadapt.vision import networks
from protoadapt.vision.extraction import extract_features
from protoadapt.vision.networks import SHIPPED, cards
from protoadapt.vision.networks.joined import joined_weights
from protoadapt.vision.networks.model_files import load_weights

RESULTS = Path(__file__).parent.parent / "results"
ROWS = {"cifar-fs": "CIFAR-FS", "fc100": "FC100", "mini-imagenet": "mini-ImageNet", "cub": "CUB, boxes"}
RUNS = {name: CHOSEN[words][1].run for name, words in ROWS.items()}
DATA = Path(os.environ.get("PROTOADAPT_DATA", ""))
HERE = [name for name in SHIPPED if cards.weights_file(name)]


def published(name: str, shot: int) -> dict[str, dict]:
    results = read_results(json.loads((RESULTS / RUNS[name].name / f"novel-{shot}shot.json").read_text()))
    return {result["label"]: result for result in results}


@pytest.mark.parametrize("name", HERE)
def test_a_card_tells_the_published_rows_of_its_own_weights_which_are_small(name):
    card, file = cards.find_card(name), cards.weights_file(name)
    assert file.stat().st_size < 16 << 20
    assert card["weights"] == load_weights(file)[1]["weights"]
    for number in card["numbers"]:
        result = published(name, number["shot"])[number["method"]]
        assert result["features"]["weights"] == card["weights"]
        assert number["accuracy"] == round(result["accuracy"], 2)
        assert (number["ci95"], number["episodes"]) == (round(result["ci95"], 2), result["episodes"])


def test_result_files_name_no_place_on_a_disk():
    for file in RESULTS.rglob("*.json"):
        assert not re.search(r'"(/|[A-Za-z]:\\\\)', file.read_text()), file


def test_result_files_are_read():
    documents = [json.loads(file.read_text()) for file in RESULTS.rglob("*.json")]
    assert sum(len(read_results(document)) for document in documents if document.get("schema") == RESULT) > 400


def weights_of(run: Run) -> set[str]:
    """The hashes of the networks of its published rows."""
    files = [*(RESULTS / run.name).glob("novel-*.json")]
    assert files
    return {r["features"]["weights"] for file in files for r in read_results(json.loads(file.read_text()))}


def kept(run: Run) -> str:
    """The hash of a network in `paper/weights`, in parts where it is large."""
    parts = sorted((RESULTS.parent / "paper" / "weights").glob(f"{run.name}.safetensors*"))
    assert parts
    assert all(part.stat().st_size < 16 << 20 for part in parts)
    return sha256(b"".join(part.read_bytes() for part in parts)).hexdigest()[:16]


def test_networks_of_the_results_that_do_not_ship_are_kept():
    for run in (CUB_WHOLE_EPNET, WIDE_SECOND_EPNET):
        assert weights_of(run) == {kept(run)}
    mini = cards.find_card("mini-imagenet")["weights"]
    assert weights_of(THREE) == {joined_weights([kept(WIDE_SECOND_EPNET), kept(WIDE_EPNET), mini])}


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("PROTOADAPT_DATA"), reason="PROTOADAPT_DATA names no folder with CUB's pictures")
def test_the_shipped_network_gives_its_published_row_again():
    """CUB, boxes, 10,000 episodes, from the pictures on."""
    if search("cub", "novel", DATA, "box") is None:
        pytest.skip(f"CUB's novel classes are not in {DATA}")
    backbone, about = networks.load("cub")
    table = extract_features(backbone, about, load_images("cub", "novel", DATA, size=about["size"], crop="box"))
    for shot in (1, 5):
        result = evaluate(table.features, table.labels, "cipa", Protocol(shot=shot))
        # The same episodes; features differ in the last digits between machines, and so does an answer in a thousand.
        assert result.accuracy == pytest.approx(published("cub", shot)["cipa"]["accuracy"], abs=0.1)
