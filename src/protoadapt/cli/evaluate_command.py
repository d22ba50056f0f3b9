"""`protoadapt evaluate`."""

from pathlib import Path
from typing import Annotated

import typer

from protoadapt.cli import evaluation
from protoadapt.cli.options import Device, Set


def evaluate(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="feature file, .safetensors or .npz")],
    method_name: Annotated[
        str, typer.Option("--method", help="a name that `protoadapt methods` lists, or package.module:function")
    ] = "cipa",
    way: evaluation.Way = 5,
    shot: evaluation.Shot = 1,
    query: evaluation.Query = 15,
    episodes: evaluation.EpisodeCount = 10_000,
    seed: evaluation.Seed = 0,
    protocol: evaluation.Kind = "balanced",
    alpha: evaluation.Alpha = 2.0,
    unlabeled: evaluation.Unlabeled = 0,
    distractors: evaluation.Distractors = 0,
    min_rows: evaluation.MinRows = 0,
    base: evaluation.Base = None,
    settings: Set = None,
    json_out: evaluation.Json = None,
    form: evaluation.Format = "text",
    device: Device = "cpu",
) -> None:
    """Measure one method over thousands of episodes.

    Prints its accuracy with 95 % confidence intervals over episodes and over classes.
    """
    from protoadapt.core.episodes import Protocol
    from protoadapt.core.methods import method, parse_assignments

    evaluation.check(form, json_out, file, base)
    chosen = method(method_name, **parse_assignments(settings or []))
    drawn = Protocol(protocol, way, shot, query, alpha, unlabeled, distractors)
    results = evaluation.run(evaluation.read_table(file, base, min_rows), [chosen], drawn, episodes, seed, device)
    evaluation.show(results, None, form, json_out, results[0])
