"""Commands on features: evaluate, compare, methods."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer

from protoadapt.cli.options import Device, Set, find_device, progress
from protoadapt.core.episodes import Protocol, redrawn
from protoadapt.core.errors import UserError, count
from protoadapt.core.evaluate import compare as run_compare
from protoadapt.core.features import Features, base_mean_of, load_features
from protoadapt.core.files import check_output, write_json
from protoadapt.core.methods import METHODS, NEED_BASE_MEAN, Method, method, parse_assignments, split_specs
from protoadapt.report.tables import check_format, render

FeatureFile = Annotated[Path, typer.Argument(metavar="FILE", help="features, .safetensors or .npz")]
Way = Annotated[int, typer.Option(help="classes an episode")]
Shot = Annotated[int, typer.Option(help="labelled rows a class")]
Query = Annotated[int, typer.Option(help="queries a class (their mean where classes are imbalanced)")]
EpisodeCount = Annotated[int, typer.Option("--episodes", help="number of episodes")]
Seed = Annotated[int, typer.Option(help="fixes which episodes are drawn")]
Kind = Annotated[str, typer.Option("--protocol", help="balanced, dirichlet or semi")]
Alpha = Annotated[float, typer.Option(help="dirichlet: concentration of the class shares")]
Unlabeled = Annotated[int, typer.Option(help="semi: unlabelled rows a class")]
Distractors = Annotated[int, typer.Option(help="semi: further classes among the unlabelled rows")]
MinRows = Annotated[int, typer.Option(help="leave out classes with fewer rows")]
Base = Annotated[Path | None, typer.Option(help="features of the base classes, for methods that centre by their mean")]
Json = Annotated[Path | None, typer.Option("--json", help="write the result here")]
Format = Annotated[str, typer.Option("--format", help="text, markdown, csv or latex")]


def evaluate(
    file: FeatureFile,
    method_name: Annotated[str, typer.Option("--method", help="a name, or package.module:function")] = "cipa",
    way: Way = 5,
    shot: Shot = 1,
    query: Query = 15,
    episodes: EpisodeCount = 10_000,
    seed: Seed = 0,
    protocol: Kind = "balanced",
    alpha: Alpha = 2.0,
    unlabeled: Unlabeled = 0,
    distractors: Distractors = 0,
    min_rows: MinRows = 0,
    base: Base = None,
    settings: Set = None,
    json_out: Json = None,
    form: Format = "text",
    device: Device = "cpu",
) -> None:
    """Accuracy of one method over thousands of episodes.

    With its 95 % confidence interval.
    """
    _check(form, json_out, file, base)
    chosen = method(method_name, **parse_assignments(settings or []))
    drawn = _protocol(protocol, way, shot, query, alpha, unlabeled, distractors)
    results = _run(_table(file, base, min_rows), [chosen], drawn, episodes, seed, device)
    _show(results, None, form, json_out, results[0])


def compare(
    file: FeatureFile,
    methods: Annotated[
        str, typer.Option(help="names with commas between, arguments in brackets: protonet,cipa(sigma=1); or: all")
    ] = "protonet,semi_protonet,cipa,pt_map",
    reference: Annotated[str, typer.Option(help="paired differences are to this method (default: the first)")] = "",
    way: Way = 5,
    shot: Shot = 1,
    query: Query = 15,
    episodes: EpisodeCount = 10_000,
    seed: Seed = 0,
    protocol: Kind = "balanced",
    alpha: Alpha = 2.0,
    unlabeled: Unlabeled = 0,
    distractors: Distractors = 0,
    min_rows: MinRows = 0,
    base: Base = None,
    json_out: Json = None,
    form: Format = "text",
    device: Device = "cpu",
) -> None:
    """Several methods on the same episodes.

    With paired differences to a reference method.
    """
    _check(form, json_out, file, base)
    table = _table(file, base, min_rows)
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
    drawn = _protocol(protocol, way, shot, query, alpha, unlabeled, distractors)
    if left_out:
        print(f"left out, as they need the base classes' mean (--base FILE): {', '.join(left_out)}", file=sys.stderr)
    results = _run(table, chosen, drawn, episodes, seed, device)
    _show(results, against if len(results) > 1 else None, form, json_out, {"results": results, "reference": against})


def methods() -> None:
    """The methods of evaluate and compare.

    With their arguments.
    """
    for name, function in METHODS.items():
        print(name)
        print("  " + " ".join((function.__doc__ or "").split("\n\n")[0].split()))
        settings = method(function).settings
        if settings:
            print("  arguments: " + ", ".join(f"{key}={value}" for key, value in settings.items()))


def _protocol(kind: str, way: int, shot: int, query: int, alpha: float, unlabeled: int, distractors: int) -> Protocol:
    if kind != "semi" and (unlabeled or distractors):
        raise UserError(f"--unlabeled and --distractors belong to --protocol semi, not to {kind}: add or drop them")
    return Protocol(kind, way, shot, query, alpha, unlabeled, distractors)


def _check(form: str, json_out: Path | None, *inputs: Path | None) -> None:
    """Before the work: what would only be found out after it."""
    check_format(form)
    if json_out:
        check_output(json_out, *inputs)


def _table(file: Path, base: Path | None, min_rows: int) -> Features:
    table = load_features(file)
    if min_rows < 0:
        raise UserError(f"--min-rows is {min_rows}: it must be 0 or more")
    classes, place, rows = np.unique(table.labels.numpy(), return_inverse=True, return_counts=True)
    if (small := (classes >= 0) & (rows < min_rows)).any():
        if not (rows[classes >= 0] >= min_rows).any():
            raise UserError(f"no class has {min_rows} rows, the largest {rows[classes >= 0].max()}: lower --min-rows")
        print(f"left out: {count(small.sum(), 'class', 'classes')} with fewer than {min_rows} rows", file=sys.stderr)
        labels = table.labels.masked_fill(torch.from_numpy(small[place]), -1)
        table = replace(table, labels=labels, metadata={**table.metadata, "min_rows": min_rows})
    return replace(table, base_mean=base_mean_of(base, table)) if base else table


def _run(table: Features, chosen: list[Method], drawn: Protocol, episodes: int, seed: int, device: str) -> list[dict]:
    device = find_device(device)
    if (share := redrawn(table.labels.numpy(), drawn)) > 0.1:
        print(
            f"note: {share:.0%} of Dirichlet({drawn.alpha:g}) draws do not fit the classes' rows and are drawn again: "
            f"class sizes are more alike than they should be; lower --query",
            file=sys.stderr,
        )
    with progress(f"{len(chosen)} methods" if len(chosen) > 1 else chosen[0].label, episodes) as done:
        results = run_compare(
            table.features,
            table.labels,
            chosen,
            drawn,
            episodes=episodes,
            seed=seed,
            base_mean=table.base_mean,
            device=device,
            on_progress=done,
        )
    about = table.about
    return [result.to_json(**about) for result in results]


def _show(results: list[dict], reference: str | None, form: str, json_out: Path | None, content: dict) -> None:
    if json_out:
        write_json(json_out, content)
    print(render(results, reference, form))
