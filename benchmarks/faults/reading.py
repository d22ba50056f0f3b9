"""Cases that read changed files. Each function takes a generator and a world and returns how the case ended.

A reader may refuse a file (UserError) or read it. What has a checksum is read unchanged or not at all.
"""

import io
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from benchmarks.faults.damage import (
    Rng,
    changed_bytes,
    changed_json,
    changed_line,
    changed_npy,
    changed_safetensors,
    changed_text,
)
from benchmarks.faults.world import World
from protoadapt.core.errors import UserError
from protoadapt.core.evaluate import evaluate
from protoadapt.core.features import Features, load_features
from protoadapt.core.parts import read_lists, read_rows
from protoadapt.core.protocol import Protocol
from protoadapt.labeling.classifier import load_classifier
from protoadapt.labeling.support import read_support
from protoadapt.report.documents import is_readable, report_page
from protoadapt.training import checkpoint
from protoadapt.training.datasets import load
from protoadapt.vision import networks
from protoadapt.vision.feature_store import Store
from protoadapt.vision.networks.cards import calibration_of, read_card
from protoadapt.vision.pictures.decode import decode_bytes, thumbnail
from protoadapt.vision.pictures.formats import quiet_pillow, reason
from protoadapt.vision.shards import load_manifest, open_features

SIDE = 16


def features(rng: Rng, world: World) -> str:
    """A feature file is refused, or its rows are finite and can be evaluated."""
    files = world.feature_files
    source = files[rng.integers(len(files))]
    content, other = source.read_bytes(), files[rng.integers(len(files))].read_bytes()
    if source.suffix == ".safetensors":
        change = changed_safetensors if rng.random() < 0.5 else changed_bytes
        content = change(rng, content) if change is changed_safetensors else changed_bytes(rng, content, other)
    else:
        content = _repacked(rng, content) if rng.random() < 0.5 else changed_bytes(rng, content, other)
    path = world.scratch / f"changed{source.suffix}"
    path.write_bytes(content)
    table = load_features(path)
    check(isinstance(table, Features) and bool(torch.isfinite(table.features).all()), "rows are not finite")
    check(len(table.labels) == len(table.features), "labels do not fit")
    result = evaluate(
        table.features, table.labels, "protonet", Protocol(way=2, query=1), episodes=1, base_mean=table.base_mean
    )
    result.to_json(**table.about)
    return "read"


def _repacked(rng: Rng, content: bytes) -> bytes:
    """An .npz file whose arrays are changed while the archive around them is correct."""
    packed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as new:
        members = old.namelist()
        chosen = members[rng.integers(len(members))]
        for name in members:
            array = old.read(name)
            change = changed_npy if rng.random() < 0.6 else changed_bytes
            new.writestr(name, change(rng, array) if name == chosen else array)
    return packed.getvalue()


def pictures(rng: Rng, world: World) -> str:
    """A picture is decoded to pixels of its size, or there is a reason in words why not."""
    files = world.pictures
    name = list(files)[rng.integers(len(files))]
    content = changed_bytes(rng, files[name], files[list(files)[rng.integers(len(files))]])
    if rng.random() < 0.004:
        return _folder_of_pictures(rng, world, name, content)
    ended = "read"
    with quiet_pillow():
        for use in (lambda: decode_bytes(content, SIDE), lambda: thumbnail(content)):
            try:
                result = use()
            except Exception as error:  # as every reader of pictures does
                check(bool(reason(error, name)), "no reason is given")
                ended = "refused"
            else:
                pixels = result if isinstance(result, np.ndarray) else None
                check(pixels is None or (pixels.shape, pixels.dtype) == ((3, SIDE, SIDE), np.uint8), "pixels are wrong")
                if pixels is None:
                    check(Image.open(io.BytesIO(result)).format == "WEBP", "the thumbnail is no WebP")
    return ended


def _folder_of_pictures(rng: Rng, world: World, name: str, content: bytes) -> str:
    """A damaged picture changes nothing about the pictures beside it."""
    folder = world.copy_of("images")
    (folder / "a" / f"damaged{Path(name).suffix}").write_bytes(content)
    images = load("folder", "all", folder, size=SIDE, on_corrupt="skip", workers=1)
    for path, row in world.pixels.items():
        check(path in images.paths, f"{path} is lost")
        check(np.array_equal(images.pixels[images.paths.index(path)], row), f"{path} is changed")
    return "read"


def files(rng: Rng, world: World) -> str:
    """All other files: tables, JSON documents, manifests, checkpoints, classifiers, shards, caches, models."""
    kinds = list(FILES)
    return FILES[kinds[rng.integers(len(kinds))]](rng, world)


def change_file(rng: Rng, path: Path) -> None:
    """Changes a file in place: its bytes or, as its kind has one, its structure."""
    content = path.read_bytes()
    text = path.suffix in (".csv", ".json", ".jsonl")
    if rng.random() < 0.5:
        change: Callable[..., bytes] = changed_bytes
    elif path.suffix == ".json":
        change = changed_json
    elif path.suffix == ".jsonl":
        change = changed_line if rng.random() < 0.7 else changed_text
    elif path.suffix == ".safetensors":
        change = changed_safetensors
    else:
        change = changed_text if text else changed_bytes
    path.write_bytes(change(rng, content))


def _corrections(rng: Rng, world: World) -> str:
    folder = world.copy_of("named")
    change_file(rng, folder / "labels.csv")
    for example in read_support([folder / "labels.csv", world.place / "support"], world.place / "images").examples:
        check(bool(example.label), "an example without a label")
    return "read"


def _reports(rng: Rng, world: World) -> str:
    name = ["named/labels.json", "result.json", "run/result.json"][rng.integers(3)]
    document = world.copy_of_file(name)
    change_file(rng, document)
    try:
        parsed = world.read_json(document)
    except UserError:
        return "refused"
    if not is_readable(parsed):
        return "refused"
    check("<html" in report_page({"document": parsed}), "no page")
    return "read"


def _manifests(rng: Rng, world: World) -> str:
    path = world.copy_of_file("list.jsonl")
    change_file(rng, path)
    changed = load_manifest(path)
    for number, shard in enumerate(changed.shards):
        entries = changed.read(number)
        if shard in world.manifest.shards:
            check(
                entries == world.manifest.read(world.manifest.shards.index(shard)), "other pictures, the same checksum"
            )
    return "read"


def _checkpoints(rng: Rng, world: World) -> str:
    run = world.copy_of("run")
    inside = sorted(checkpoint.load_latest(run).folder.iterdir())
    change_file(rng, inside[rng.integers(len(inside))])
    loaded, own = checkpoint.load_latest(run), world.checkpoint
    check(loaded.config == own.config and loaded.scalars == own.scalars, "another config or state is accepted")
    for name, tensor in own.tensors.items():
        check(torch.equal(loaded.tensors[name], tensor), f"{name} is changed")
    return "read"


def _models(rng: Rng, world: World) -> str:
    if rng.random() < 0.5:
        path = world.copy_of_file("model.safetensors")
        change_file(rng, path)
        network, metadata = networks.load(path)
        with torch.inference_mode():
            network(torch.zeros(1, 3, metadata["size"], metadata["size"]))
        return "read"
    path = world.copy_of_file("card.json")
    change_file(rng, path)
    calibration_of(path, "0" * 16)
    return "read" if read_card(path) else "refused"


def _classifiers(rng: Rng, world: World) -> str:
    path = world.copy_of_file("named/classifier.safetensors")
    change_file(rng, path)
    classifier = load_classifier(path)
    rows = np.random.default_rng(0).random((3, len(classifier.center)), np.float32)
    answers = classifier.answer(rows)
    check(bool(np.isfinite(answers.probability).all()), "probabilities that are no numbers")
    return "read"


def _shards(rng: Rng, world: World) -> str:
    folder = world.copy_of("shards")
    inside = sorted(path for path in folder.iterdir() if path.suffix in (".npy", ".jsonl", ".json"))
    target = inside[rng.integers(len(inside))]
    change_file(rng, target)
    table = open_features(folder)
    table.check()
    for part, original in zip(table.parts, open_features(world.place / "shards").parts, strict=True):
        check(np.array_equal(read_rows(part), read_rows(original)), "features are changed")
        check(read_lists(part) == read_lists(original), "names are changed")
    return "read"


def _stores(rng: Rng, world: World) -> str:
    folder = world.copy_of("store")
    (piece,) = folder.rglob("*.safetensors")
    change_file(rng, piece)
    store = Store(folder, "weights", SIDE)
    kept = [content for content in world.contents if content in store]
    if len(kept) < len(world.contents):
        return "refused"
    check(np.array_equal(store.rows(kept), world.stored), "features are changed")
    return "read"


def _pixel_caches(rng: Rng, world: World) -> str:
    folder = world.copy_of("images")
    inside = sorted((folder / ".protoadapt-cache").iterdir())
    cut = inside[rng.integers(len(inside))]  # it has no checksum: what is found is a file that is cut short
    os.truncate(cut, rng.integers(cut.stat().st_size - 1))
    images = load("folder", "all", folder, size=SIDE, workers=1)
    check(images.paths == list(world.pixels), "pictures are lost")
    check(np.array_equal(images.pixels, np.stack(list(world.pixels.values()))), "pixels are changed")
    check([images.class_names[label] for label in images.labels] == [p.split("/")[0] for p in images.paths], "labels")
    return "read"


FILES: dict[str, Callable[[Rng, World], str]] = {
    "corrections": _corrections,
    "reports": _reports,
    "manifests": _manifests,
    "checkpoints": _checkpoints,
    "models": _models,
    "classifiers": _classifiers,
    "shards": _shards,
    "stores": _stores,
    "pixel caches": _pixel_caches,
}


def check(condition: bool, problem: str) -> None:
    """A finding where the condition does not hold."""
    if not condition:
        raise AssertionError(problem)
