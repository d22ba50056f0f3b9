"""The demonstration: HCT_R on built-in pictures, then three methods on characters it never saw; tables and figures."""

import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from protoadapt.core.episodes import Protocol, draw
from protoadapt.core.evaluate import compare
from protoadapt.core.features import Features, save_features
from protoadapt.core.files import write_json, written_whole
from protoadapt.core.methods import method
from protoadapt.core.records import right_answers
from protoadapt.report.curves import draw_curves
from protoadapt.report.path_figure import draw_paths, path_picture
from protoadapt.report.tables import render
from protoadapt.report.task import draw_task, task_picture
from protoadapt.training import checkpoint, load_splits, train
from protoadapt.training.datasets import load
from protoadapt.training.recipes import recipe
from protoadapt.training.watch import clock
from protoadapt.vision import networks
from protoadapt.vision.embed import extract, save_index
from protoadapt.vision.pictures.images import Images

METHODS = ("protonet", "semi_protonet(metric=cosine)", "cipa")
SHOTS = (1, 5)


def run(out: Path, overrides: Iterable[str] = (), *, per_class: int | None = None, episodes: int = 10_000) -> None:
    """Draw, train, evaluate, report; everything goes to `out`.

    A run that is there already is gone on with, not begun anew: after an interruption from its last checkpoint, after
    its end straight to the evaluation. `overrides` of the recipe hct_r_glyphs, fewer pictures and fewer episodes make
    it short.
    """
    start = time.perf_counter()

    def say(words: str) -> None:
        print(f"[{clock(time.perf_counter() - start)}] {words}", flush=True)

    config = recipe("hct_r_glyphs", overrides)
    pictures: dict[str, Any] = {"cache_dir": out / "pictures", "per_class": per_class}
    say(f"drawing pictures of letters and signs in {out / 'pictures'}")
    base, val = load_splits(config, None, **pictures)

    again = checkpoint.latest(out / "run") is not None
    say(
        f"{out / 'run'} holds a run already: going on from there (delete {out} to start afresh)"
        if again
        else f"training HCT_R on {len(base):,} pictures of {len(base.class_names)} characters"
    )
    told = train(config, base, val, out / "run", resume=again, accelerator="cpu")
    if not told["finished"]:
        return say("stopped: the same command goes on from here")

    novel = load(config.dataset, "novel", size=config.size, **pictures)
    say(f"embedding {len(novel):,} pictures of {len(novel.class_names)} characters that were not in training")
    table = extract(*networks.load(out / "run"), novel, base)
    save_features(out / "features.safetensors", table)
    save_index(out / "features.index.csv", novel)

    say(f"naming them: {episodes:,} tasks of five characters, from 1 and from 5 labelled pictures of each")
    results = {shot: evaluated(table, shot, episodes, told, out / "results") for shot in SHOTS}
    say("drawing figures")
    figures(out, told, table, novel, results[1])
    trained = f"{config.backbone} of width {config.width}, {config.epochs} epochs, {clock(told['seconds'])} of training"
    with written_whole(out / "results.md") as page:
        tables = [render(r, METHODS[0], "markdown") + "\n" for r in results.values()]
        words = [f"# Characters nobody trained on\n\nHCT_R: {trained}.\n", *tables, PICTURES]
        page.write_text("\n".join(words), encoding="utf-8")
    say(f"done: {out / 'results.md'}, {', '.join(str(out / name) for name in FIGURES)}")


def evaluated(table: Features, shot: int, episodes: int, told: dict[str, Any], folder: Path) -> list[dict[str, Any]]:
    """Every method on the same tasks: printed, one JSON file each."""
    results = compare(
        table.features, table.labels, METHODS, Protocol(shot=shot), episodes=episodes, base_mean=table.base_mean
    )
    training = {key: told[key] for key in ("config", "best", "seconds", "versions", "hardware")}
    plain = [{**result.to_json(**table.about), "training": training} for result in results]
    for result in plain:
        write_json(folder / f"{shot}-shot-{result['method']}.json", result)
    print(f"\n{render(plain, METHODS[0], 'text')}\n", flush=True)
    return plain


FIGURES = ("glyphs.png", "paths.png", "curve.png")
PICTURES = """\
A 1-shot task (of the first tasks, the one nearest to the table's averages), and how its unlabelled pictures pull CIPA's
prototypes to their classes:

![one task](glyphs.png)

![prototypes on their way](paths.png)

How the training went; validation is on characters that are in neither base nor novel classes:

![losses and accuracies](curve.png)
"""


def figures(out: Path, told: dict[str, Any], table: Features, novel: Images, results: Sequence[dict[str, Any]]) -> None:
    """A 1-shot task of `results` as pictures and as paths, and the training curves."""
    first = next(draw(table.labels.numpy(), Protocol(), results[0]["seed"], results[0]["episodes"]))
    # Neither the prettiest nor the ugliest task: the one where every method comes nearest to its average.
    correct = np.array([right_answers(result) for result in results])
    task = int(np.abs(correct - correct.mean(1, keepdims=True))[:, : len(first.query)].sum(0).argmin())
    drawn = first[task : task + 1]
    episode, truth = drawn.episodes(table.features, 5), drawn.query_labels[0]
    with torch.no_grad():
        answers = {name: method(name)(episode)[0].argmax(-1).numpy() for name in ("protonet", "cipa")}
    right = {name: 100 * np.mean(answer == truth) for name, answer in answers.items()}
    names = [novel.class_names[novel.labels[row]] for row in drawn.support[0]]
    support, query = (drawn.support[0], drawn.support_labels[0]), (drawn.query[0], truth)
    title = f"A 5-way 1-shot task: ProtoNet names {right['protonet']:.0f} % rightly, CIPA {right['cipa']:.0f} %"
    picture = task_picture(novel.pixels, names, support, query, answers)
    draw_task(picture, out / "glyphs.png", ("protonet", "ProtoNet"), ("cipa", "CIPA"), title)
    draw_paths(path_picture(episode, truth), out / "paths.png", "The same task: CIPA's prototypes on their way", names)
    draw_curves(told["history"], out / "curve.png", "HCT_R on characters; validation on others")
