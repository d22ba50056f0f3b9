"""A small world to damage: pictures, a model and everything that the commands make of them."""

import hashlib
import io
import json
import shutil
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from functools import cached_property
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from PIL import Image
from safetensors.torch import save_file

from protoadapt.app.board import Picture
from protoadapt.app.session import new_session
from protoadapt.cli import main
from protoadapt.core.errors import UserError
from protoadapt.core.evaluate import evaluate
from protoadapt.core.features import Features, save_features, synthetic_features
from protoadapt.core.files import sha256_of, write_json
from protoadapt.core.heads import HEADS, HeadShape
from protoadapt.core.protocol import Protocol
from protoadapt.training import checkpoint
from protoadapt.training.datasets import load
from protoadapt.vision import networks
from protoadapt.vision.feature_store import Store
from protoadapt.vision.networks.backbones import build
from protoadapt.vision.networks.model_files import plain, save_fp16
from protoadapt.vision.networks.onnx_graph import graph_of
from protoadapt.vision.pictures.walk import Skipped
from protoadapt.vision.shards import load_manifest

SIDE = 16
CLASSES = ("a", "b", "c")
TRAINING = ["--set", "backbone=conv4", "--set", "width=4", "--set", f"size={SIDE}", "--set", "batch=8"]
TRAINING += ["--set", "epochs=2", "--set", "validation_episodes=4", "--device", "cpu"]


def command(*words: Any) -> tuple[int, str]:
    """`protoadapt …` in this process: the exit code and what it wrote to the error output."""
    out, err = io.StringIO(), io.StringIO()
    with mock.patch.object(sys, "argv", ["protoadapt", *map(str, words)]), redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as ended:
            return int(ended.code or 0), err.getvalue()
    return 0, err.getvalue()


class World:
    """The folder `place`, built once, and the copies in `scratch` that cases damage."""

    def __init__(self, place: Path):
        self.place, self.scratch = place, place / "scratch"
        self.durations: dict[str, float] = {}  # seconds of each command, once it has run
        self.board: Any = None  # of `page`, made when the first case asks for it
        self.scratch.mkdir(parents=True, exist_ok=True)
        if not (place / "complete").exists():
            self._build()
            (place / "complete").touch()

    def _build(self) -> None:
        place, rng = self.place, np.random.default_rng(0)
        for folder, each in (("images", 6), ("support", 2), ("classes", 8)):
            names = CLASSES if folder != "classes" else [f"class{i}" for i in range(8)]
            for shade, name in enumerate(names):
                (place / folder / name).mkdir(parents=True)
                for i in range(each):
                    self._picture(rng, 30 + 190 * shade // len(names)).save(place / folder / name / f"{i}.png")
        torch.manual_seed(0)
        about = {"backbone": "conv4", "width": 4, "size": SIDE, "mean": [0.5] * 3, "std": [0.25] * 3}
        about |= {"crop": "none", "dataset": "toy"}
        save_fp16(build("conv4", 4).eval(), about, place / "model.safetensors")
        calibration = {"rates": [0.05, 0.1], "thresholds": [[0.1] * 5] * 2, "usual": [0.5] * 4}
        card = {"schema": "protoadapt-model/1", "weights": "0" * 16, "trained_on": "toys", "calibration": calibration}
        write_json(place / "card.json", card)
        self.run_all(place)
        table = synthetic_features(6, 12, 8)
        result = evaluate(table.features, table.labels, "cipa", Protocol(query=3), episodes=5)
        write_json(place / "result.json", result.to_json(**table.about))
        store = Store(place / "store", "weights", SIDE)
        store.add(self.contents, self.stored)
        store.flush()
        load("folder", "all", place / "images", size=SIDE, workers=1)
        self._feature_files(table)
        self._passed_on(about)

    def _passed_on(self, about: dict[str, Any]) -> None:
        """Files that people pass on: networks for onnxruntime and timm, heads, settings, a session of the page."""
        place, network = self.place, build("conv4", 4).eval()
        described = {"size": SIDE, "mean": [0.5] * 3, "std": [0.25] * 3, "dataset": "toys"}
        (place / "network.onnx").write_bytes(graph_of(network.stages, described))
        layer = {"layer.weight": torch.rand(4, 3, 3, 3), "layer.bias": torch.rand(4)}
        torch.save(layer, place / "weights.pth")
        save_file(layer, place / "weights.safetensors")
        (place / "heads").mkdir()
        for name, head in HEADS.items():
            shape = HeadShape(dim=4, side=2, way=3, shot=1)
            weights = {f"backbone.{key}": value for key, value in network.state_dict().items()}
            weights |= {f"{name}.{key}": value for key, value in head(shape).state_dict().items()}
            header = {"protoadapt": json.dumps(about | {"head": {"name": name, **vars(shape)}})}
            save_file(plain(weights), place / "heads" / f"{name}.safetensors", header)
        settings = {"scale": 8.5, "gammas": [1.9, 2.1], "temps": [1.7, 2.0]}
        write_json(place / "settings.json", {"method": "unem", "arguments": settings})
        session = new_session(place / "boards", self.weights)
        pictures = [Picture(f"{i}.png", sha256_of(path), row) for i, (path, row) in enumerate(self._rows())]
        session.add(pictures, [Skipped("a.txt", "no picture")], ["a", "b", *[None] * (len(pictures) - 2)], "drop")
        session.change({"labels": {2: "c"}, "classes": ["a", "b", "c"]}, "a class")
        session.change({"gone": {3: True}}, "off")
        session.undo()

    def _rows(self) -> Iterator[tuple[Path, np.ndarray]]:
        rng = np.random.default_rng(3)
        for path in self.some_pictures(8):
            yield path, rng.random(4, np.float32)

    @staticmethod
    def _picture(rng: np.random.Generator, shade: int) -> Image.Image:
        noise = rng.integers(-25, 25, (20, 24, 3)) + shade
        return Image.fromarray(noise.clip(0, 255).astype(np.uint8))

    def _feature_files(self, table: Features) -> None:
        folder = self.place / "features"
        folder.mkdir()
        rows, labels = table.features.numpy(), table.labels.numpy()
        names = np.array([f"class {label}" for label in labels])
        save_features(folder / "plain.safetensors", Features(table.features, table.labels))
        about = {"dataset": "d", "split": "s", "views": 2, "pooling": 2.0, "class_names": ["a", "b"], "weights": "w"}
        save_features(
            folder / "full.safetensors", Features(table.features.half(), table.labels, table.base_mean, about)
        )
        np.savez(folder / "plain.npz", features=rows, labels=labels)
        np.savez_compressed(folder / "packed.npz", features=rows, labels=names, base_mean=rows.mean(0))

    def run_all(self, out: Path) -> None:
        """Everything that the commands make, into a folder."""
        for words in [words for name, words in self.commands(out).items() if name != "page"]:
            code, said = command(*words)
            if code:
                raise RuntimeError(f"{words} ended with {code}: {said}")

    def commands(self, out: Path) -> dict[str, list[Any]]:
        """The commands that are damaged, killed and starved; each may be run again."""
        place, model = self.place, self.place / "model.safetensors"
        names = {"support": ["--support", place / "support"], "images": ["--images", place / "images"]}
        named = [*names["support"], *names["images"], "--out", out / "named", "--model", model, "--device", "cpu"]
        resume = ["--resume"] if checkpoint.latest(out / "run") else ["hct_r", "--dataset", "folder", *TRAINING]
        return {
            "label": ["label", *named, "--sort", "copy"],
            "manifest": ["manifest", place / "images", "--out", out / "list.jsonl", "--shard-size", 5, "--sha256"],
            "extract": ["extract", model, *names["images"], "--out", out / "f.safetensors", "--device", "cpu"],
            "shards": [
                *("extract", model, "--manifest", out / "list.jsonl", "--out", out / "shards"),
                *("--device", "cpu", "--workers", 1),
            ],
            "suggest": [
                *("suggest", *names["images"], *names["support"], "--out", out / "next", "--model", model),
                *("--n", 4, "--device", "cpu"),
            ],
            "page": ["serve", "--model", model, "--port", 0, "--keep", out / "kept", "--device", "cpu"],
            "train": ["train", *resume, "--data", place / "classes", "--cache", out / "cache", "--out", out / "run"],
        }

    @cached_property
    def warm(self) -> bool:
        """Runs every command here once, so that children which are forked later have all libraries loaded."""
        shutil.rmtree(self.scratch / "warm", ignore_errors=True)
        import uvicorn.protocols.http.h11_impl  # noqa: F401

        import protoadapt.app.server  # noqa: F401

        for _ in range(2):  # the second time what was made is read again
            self.run_all(self.scratch / "warm")
        return True

    def some_pictures(self, number: int, rng: np.random.Generator | None = None) -> list[Path]:
        """The first pictures of the world, or any."""
        files = sorted(self.place.glob("[ics][mlu]*/*/?.png"))
        return files[:number] if rng is None else [files[i] for i in rng.choice(len(files), number, replace=False)]

    def copy_of(self, name: str) -> Path:
        """A fresh copy of a folder."""
        target = self.scratch / name
        shutil.rmtree(target, ignore_errors=True)
        return Path(shutil.copytree(self.place / name, target))

    def copy_of_file(self, name: str) -> Path:
        return Path(shutil.copy2(self.place / name, self.scratch / Path(name).name))

    @staticmethod
    def read_json(path: Path) -> Any:
        try:
            return json.loads(path.read_bytes())
        except (ValueError, RecursionError) as error:
            raise UserError("not JSON") from error

    @cached_property
    def network(self) -> tuple[Any, dict[str, Any]]:
        return networks.load(self.place / "model.safetensors")

    @cached_property
    def weights(self) -> str:
        return sha256_of(self.place / "model.safetensors")[:16]

    @cached_property
    def feature_files(self) -> list[Path]:
        return sorted((self.place / "features").iterdir())

    @cached_property
    def contents(self) -> list[bytes]:
        return [hashlib.sha256(bytes([i])).digest() for i in range(20)]

    @cached_property
    def stored(self) -> np.ndarray:
        return np.random.default_rng(1).random((20, 8), np.float32)

    @cached_property
    def manifest(self) -> Any:
        return load_manifest(self.place / "list.jsonl")

    @cached_property
    def checkpoint(self) -> checkpoint.Checkpoint:
        return checkpoint.load_latest(self.place / "run")

    @cached_property
    def pixels(self) -> dict[str, np.ndarray]:
        images = load("folder", "all", self.place / "images", size=SIDE, workers=1)
        return dict(zip(images.paths, np.array(images.pixels)))

    @cached_property
    def pictures(self) -> dict[str, bytes]:
        """Small pictures of every format, many of their kinds."""
        image = self._picture(np.random.default_rng(2), 120)
        exif = Image.Exif()
        exif[0x0112] = 6
        kinds: dict[str, tuple[Image.Image, str, dict[str, Any]]] = {
            "a.jpg": (image, "JPEG", {"comment": b"hello"}),
            "progressive.jpg": (image, "JPEG", {"progressive": True, "exif": exif}),
            "cmyk.jpg": (image.convert("CMYK"), "JPEG", {}),
            "grey.png": (image.convert("L"), "PNG", {"transparency": 7}),
            "a.png": (image.convert("RGBA"), "PNG", {}),
            "palette.png": (image.convert("P"), "PNG", {"transparency": 3}),
            "deep.png": (image.convert("L").convert("I;16"), "PNG", {}),
            "a.webp": (image, "WEBP", {}),
            "lossless.webp": (image.convert("RGBA"), "WEBP", {"lossless": True}),
            "a.bmp": (image, "BMP", {}),
            "a.gif": (image, "GIF", {"save_all": True, "append_images": [image.rotate(90)]}),
            "a.tif": (image, "TIFF", {}),
            "lzw.tif": (image, "TIFF", {"compression": "tiff_lzw"}),
            "float.tif": (image.convert("L").convert("F"), "TIFF", {}),
            "jpeg.tif": (image, "TIFF", {"compression": "jpeg"}),
            "a.ppm": (image, "PPM", {}),
        }
        files = {}
        for name, (picture, form, options) in kinds.items():
            file = io.BytesIO()
            picture.save(file, form, **options)
            files[name] = file.getvalue()
        return files
