"""Cases that read changed files which people pass on to each other: networks of other programs, weights, trained heads,
cards, settings, tables to fill in, labels to export, the folder of a page's session."""

import json
import shutil
import sys
import types
from collections.abc import Callable
from typing import Any
from unittest import mock

import torch
from torch import nn

from benchmarks.faults.damage import Rng
from benchmarks.faults.reading import change_file, check
from benchmarks.faults.world import CLASSES, SIDE, World, command
from protoadapt.app.api import state
from protoadapt.app.downloads import DOWNLOADS
from protoadapt.app.session import open_session
from protoadapt.core.evaluate import evaluate
from protoadapt.core.features import synthetic_features
from protoadapt.core.methods import method
from protoadapt.core.protocol import Protocol
from protoadapt.labeling.dataset_export import FORMS, export_labels
from protoadapt.labeling.pictures import load_same
from protoadapt.labeling.suggest_folder import next_table
from protoadapt.labeling.support import read_support
from protoadapt.vision import networks
from protoadapt.vision.networks.cards import calibration_of, read_card
from protoadapt.vision.networks.head_files import load_head


def passed_on(rng: Rng, world: World) -> str:
    """A file from elsewhere is refused in a sentence, or can be used."""
    kinds = list(PASSED_ON)
    return PASSED_ON[kinds[rng.integers(len(kinds))]](rng, world)


def _onnx(rng: Rng, world: World) -> str:
    path = world.copy_of_file("network.onnx")
    change_file(rng, path)
    network, metadata = networks.load(path)
    rows = network(torch.zeros(2, 3, metadata["size"], metadata["size"]))
    check(rows.shape == (2, metadata["dim"]), "features of another size than it says")
    return "read"


class Tiny(nn.Module):
    """What timm gives, as far as it is used."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.num_features = nn.Conv2d(3, 4, 3), 4
        self.pretrained_cfg = {"input_size": (3, SIDE, SIDE), "mean": [0.5] * 3, "std": [0.5] * 3, "tag": "toys"}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x).mean((2, 3))


def _timm(rng: Rng, world: World) -> str:
    path = world.scratch / ["weights.pth", "weights.safetensors"][rng.integers(2)]
    shutil.copy2(world.place / path.name, path)
    change_file(rng, path)
    timm = types.SimpleNamespace(create_model=lambda name, **settings: Tiny())
    with mock.patch.dict(sys.modules, timm=timm):
        network, _ = networks.load(f"timm:tiny@{path}")
    network(torch.zeros(1, 3, SIDE, SIDE))
    return "read"


def _heads(rng: Rng, world: World) -> str:
    files = sorted((world.place / "heads").iterdir())
    path = world.copy_of_file(f"heads/{files[rng.integers(len(files))].name}")
    change_file(rng, path)
    head = load_head(path)
    shape = head.module.shape
    table = synthetic_features(6, 9, shape.dim * (shape.side**2 if head.module.places else 1), seed=1)
    evaluate(table.features, table.labels, head.method, Protocol(way=3, query=2), episodes=2)
    return "read"


def _cards(rng: Rng, world: World) -> str:
    """Every model with a card is loaded with it; the card's calibration is refused or complete."""
    model, card = world.copy_of_file("model.safetensors"), world.scratch / "model.json"
    content = json.loads((world.place / "card.json").read_text()) | {"weights": world.weights}
    card.write_text(json.dumps(content))
    change_file(rng, card)
    try:
        calibrated = calibration_of(card, world.weights)
        _, metadata = networks.load(model)
        check(metadata["calibration"] == calibrated, "another calibration")
        code, said = command("models", model)
        check(code in (0, 2) and "Traceback" not in said, said)
        return "read" if read_card(card) else "refused"
    finally:
        card.unlink()


def _settings(rng: Rng, world: World) -> str:
    path = world.copy_of_file("settings.json")
    change_file(rng, path)
    table = synthetic_features(6, 9, 8)
    evaluate(table.features, table.labels, method(str(path)), Protocol(way=3, query=2), episodes=2)
    return "read"


def _tables(rng: Rng, world: World) -> str:
    """A table that was filled in keeps its labels where `suggest` writes it again; `check` reads it, too."""
    folder = world.copy_of("next")
    table, images = folder / "next.csv", world.place / "images"
    lines = table.read_text().splitlines()
    table.write_text(
        "\n".join([lines[0], *(line.replace(",,", f",{CLASSES[i % 3]},", 1) for i, line in enumerate(lines[1:]))])
    )
    change_file(rng, table)
    given = {example.file: example.label for example in read_support([table], images, least=1).examples}
    check(all(given.values()), "an example without a label")
    document = json.loads((world.place / "next" / "next.json").read_text())
    table.write_text(next_table(document, images, table), newline="")
    again = {example.file: example.label for example in read_support([table], images, least=1).examples}
    check(again == given, "a label is lost or changed")
    return "read"


def _exports(rng: Rng, world: World) -> str:
    labels, out = world.copy_of("named") / "labels.json", world.scratch / "dataset"
    change_file(rng, labels)
    shutil.rmtree(out, ignore_errors=True)
    forms = list(FORMS)
    done = export_labels(labels, forms[rng.integers(len(forms))], out, images=world.place / "images")
    check(done["pictures"] > 0, "an empty dataset")
    return "read"


def _sessions(rng: Rng, world: World) -> str:
    home = world.copy_of("boards")
    (folder,) = home.iterdir()
    files = sorted(path for path in folder.rglob("*") if path.suffix in (".jsonl", ".safetensors"))
    change_file(rng, files[rng.integers(len(files))])
    session = open_session(folder, world.weights)
    metadata = world.network[1]
    json.dumps(state(session, metadata), allow_nan=False, ensure_ascii=False).encode()
    for name in ("labels.csv", "classifier.safetensors"):
        if session.named(metadata) is not None:
            DOWNLOADS[name](session, metadata)
    for picture in session.board.pictures:
        check(session.copy(picture.key, 192).resolve().parent == folder.resolve() / "pictures", "a file elsewhere")
    if session.board.pictures:
        session.change({"labels": {0: None}}, "on")
        again = open_session(folder, world.weights)
        check(again.board.labels == session.board.labels and again.board.classes == session.board.classes, "it differs")
    return "read"


def _models_of_classifiers(rng: Rng, world: World) -> str:
    """A classifier or a folder of features names its network: nothing is loaded but a network with these weights."""
    names: list[Any] = [
        "lite0+x",
        "timm:hf-hub:x/y",
        "timm:tiny@/etc/passwd",
        "/dev/zero",
        "",
        "..",
        "\0",
        "x" * 200,
        "http://x/y.onnx",
    ]
    given = str(world.scratch) if rng.random() < 0.1 else names[rng.integers(len(names))]
    weights = [world.weights, "0" * 16, ""][rng.integers(3)]
    _, metadata = load_same(None, given, weights, "the classifier was", networks.load)
    check(metadata["weights"] == weights, "another network")
    return "read"


PASSED_ON: dict[str, Callable[[Rng, World], str]] = {
    "onnx": _onnx,
    "timm": _timm,
    "heads": _heads,
    "cards": _cards,
    "settings": _settings,
    "tables": _tables,
    "exports": _exports,
    "sessions": _sessions,
    "names of networks": _models_of_classifiers,
}
"""Kinds of files, each as likely."""
