"""`protoadapt compare`."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from protoadapt.cli import evaluation
from protoadapt.cli.options import Device
from protoadapt.core.errors import UserError


def compare(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="feature file, .safetensors or .npz")],
    methods: Annotated[
        str, typer.Option(help="names separated by commas, settings in brackets: protonet,cipa(sigma=1); or: all")
    ] = "protonet,semi_protonet,cipa,pt_map",
    reference: Annotated[
        str, typer.Option(help="method that the paired differences are taken to (default: the first)")
    ] = "",
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
    json_out: evaluation.Json = None,
    form: evaluation.Format = "text",
    device: Device = "cpu",
) -> None:
    """Compare several methods on the same episodes.

    Prints their accuracies and the paired differences to a reference method, with 95 % confidence intervals.
    """
    from protoadapt.core.methods import METHODS, NEED_BASE_MEAN, method, split_specs

    evaluation.check(form, json_out, file, base)
    table = evaluation.read_table(file, base, min_rows)
    every = methods == "all"
    left_out = [name for name in METHODS if every and table.base_mean is None and name in NEED_BASE_MEAN]
    specs = [name for name in METHODS if name not in left_out] if every else split_specs(methods)
    chosen = [method(spec) for spec in specs]
    if not chosen:
        raise UserError("no method is named: give --methods protonet,cipa or --methods all")
    labels = [one.label for one in chosen]
    against = method(reference).label if reference else labels[0]
    if against not in labels:
        raise UserError(f"the reference {against!r} is not among the methods {', '.join(labels)}: add it to --methods")
    drawn = evaluation.protocol_of(protocol, way, shot, query, alpha, unlabeled, distractors)
    if left_out:
        print(
            f"left out, as they need the mean of the base classes (--base FILE): {', '.join(left_out)}", file=sys.stderr
        )
    results = evaluation.run(table, chosen, drawn, episodes, seed, device)
    content = {"results": results, "reference": against}
    evaluation.show(results, against if len(results) > 1 else None, form, json_out, content)
