"""The demonstration: trains HCT_R on built-in pictures, compares three methods on characters it never saw, and labels a
folder of them."""

import time
import zlib
from collections.abc import Iterable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from protoadapt import labeling
from protoadapt.cli.evaluate_command import measure
from protoadapt.cli.options import Measurement
from protoadapt.cli.progress import training_progress
from protoadapt.core.episodes import draw
from protoadapt.core.errors import UserError
from protoadapt.core.features import Features, save_features
from protoadapt.core.files import check_output_folder, write_json, write_text, written_whole
from protoadapt.core.projection import episode_paths
from protoadapt.core.protocol import Protocol
from protoadapt.core.results import right_answers
from protoadapt.labeling.names import to_folder
from protoadapt.report.label_page import labels_page
from protoadapt.report.result_page import evaluation_page
from protoadapt.report.tables import render
from protoadapt.training import checkpoint, load_splits, train
from protoadapt.training.datasets import load_images
from protoadapt.training.recipes import recipe
from protoadapt.vision import networks
from protoadapt.vision.extraction import extract_features
from protoadapt.vision.pictures.split import Images

METHODS_SHOWN = ("protonet", "semi_protonet(metric=cosine)", "cipa")
_SHOTS = (1, 5)
_CHARACTERS, _EXAMPLES, _OTHERS = 5, 3, 12
"""Of the folder that is labelled: characters, and pictures of each with and without a label."""


def run_demo(out: Path, overrides: Iterable[str] = (), *, per_class: int | None = None, episodes: int = 10_000) -> None:
    """Draw pictures, train, evaluate, report, and label a folder; everything is written to `out`.

    A run that is already there is continued: after an interruption from its last checkpoint, after its end with the
    evaluation. `overrides` are settings of the recipe; fewer pictures per class and fewer episodes make it shorter.
    """
    start = time.perf_counter()

    def say_when(words: str) -> None:
        print(f"[{timedelta(seconds=round(time.perf_counter() - start))}] {words}", flush=True)

    check_output_folder(out)
    if out.is_dir() and any(out.iterdir()) and not (out / "pictures").is_dir():
        raise UserError(f"{str(out)!r} holds other files, which might be replaced: choose another --out")
    config = recipe("hct_r", ["dataset=glyphs", *overrides])
    pictures: dict[str, Any] = {"cache_dir": out / "pictures", "per_class": per_class}
    say_when(f"drawing pictures of letters and signs in {out / 'pictures'}")
    base, val = load_splits(config, None, **pictures)
    again = checkpoint.latest(out / "run") is not None
    if again:
        say_when(f"continuing the run in {out / 'run'} (delete {out} to start again)")
    else:
        say_when(f"training HCT_R on {len(base):,} pictures of {len(base.class_names)} characters")
    with training_progress() as show:
        training = train(config, base, val, out / "run", resume=again, accelerator="cpu", on_event=show)
    if not training["finished"]:
        return say_when("interrupted: run the same command to continue")

    novel = load_images(config.dataset, "novel", size=config.size, **pictures)
    say_when(f"embedding {len(novel):,} pictures of {len(novel.class_names)} characters that were not in training")
    table = extract_features(*networks.load(out / "run"), novel, base)
    save_features(out / "features.safetensors", table)

    say_when(f"evaluating {episodes:,} episodes of five characters, with 1 and with 5 labelled pictures of each")
    files: dict[str, dict[str, Any]] = {}
    for shot in _SHOTS:
        results = measure(table, METHODS_SHOWN, Protocol(shot=shot), Measurement(episodes=episodes))
        files |= {f"results/{shot}-shot-{result['method']}.json": result for result in results}
        print(f"\n{render(results, METHODS_SHOWN[0], 'text')}\n", flush=True)
    if paths := typical_paths(table, novel.class_names, right_answers(files["results/1-shot-cipa.json"])):
        files["paths.json"] = paths
    for name, document in files.items():
        write_json(out / name, document)
    write_text(out / "report.html", evaluation_page([*files.values(), training]))
    say_when("labelling a folder of pictures from three examples per character")
    say_when(label_some(novel, out))
    pages = f"{out / 'report.html'} for the evaluation and {out / 'named' / 'report.html'} for the labelled folder"
    say_when(f"done: open {pages}")


def label_some(novel: Images, out: Path) -> str:
    """Writes pictures of some characters as files and labels them, as `protoadapt label` does; returns the outcome."""
    truth = {}
    for code, name in enumerate(novel.class_names[:_CHARACTERS]):
        for i, row in enumerate(np.flatnonzero(novel.labels == code)[: _EXAMPLES + _OTHERS]):
            pixels = novel.pixels[row].transpose(1, 2, 0)
            place = out / "examples" / to_folder(name) / f"{i}.png"
            if i >= _EXAMPLES:  # neither the name nor the order of these pictures tells their class
                place = out / "photos" / f"{zlib.crc32(pixels.tobytes()):08x}.png"
                truth[place.name] = name
            with written_whole(place) as partial:
                Image.fromarray(pixels).save(partial, "PNG")
    result = labeling.label([out / "examples"], out / "photos", out / "named", model=out / "run", page=labels_page)
    right = sum(truth.get(one["file"]) == one["label"] for one in result["pictures"])
    return f"{right} of {len(truth)} pictures in {out / 'photos'} are named correctly: {out / 'named'}"


def typical_paths(table: Features, class_names: Sequence[str], correct: np.ndarray) -> dict[str, Any] | None:
    """How CIPA's prototypes move in one 1-shot task; None where all rows are the same.

    correct: CIPA's right answers per episode. Neither the prettiest nor the ugliest task is shown: the one that comes
    nearest to their average.
    """
    first = next(draw(table.labels.numpy(), Protocol(), 0, len(correct)))
    index = int(np.abs(correct - correct.mean())[: len(first.query)].argmin())
    drawn = first[index : index + 1]
    paths = episode_paths(drawn.episodes(table.features, 5), drawn.query_labels[0])
    about = "The prototypes of CIPA in a 5-way 1-shot task, the one nearest to the average accuracy"
    names = [class_names[code] for code in table.labels[drawn.support[0]].tolist()]
    return paths and {**paths, "protocol": about, "class_names": names}
