"""`protoadapt compare`."""

from pathlib import Path
from typing import Annotated

import typer

from protoadapt.cli import options
from protoadapt.cli.evaluate_command import check, load_head, measure, read_table, show
from protoadapt.cli.progress import say
from protoadapt.core.errors import UserError


def compare(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="feature files, .safetensors or .npz")],
    methods: Annotated[
        str, typer.Option(help="names separated by commas, settings in brackets: protonet,cipa(sigma=1); or: all")
    ] = "protonet,semi_protonet,cipa,pt_map",
    head: options.Head = None,
    reference: Annotated[
        str, typer.Option(help="baseline: every other method is shown minus this one (default: the first)")
    ] = "",
    way: options.Way = 5,
    shot: options.Shot = 1,
    query: options.Query = 15,
    episodes: options.EpisodeCount = 10_000,
    seed: options.Seed = 0,
    seeds: Annotated[int, typer.Option(help="number of seeds to run with: --seed, --seed + 1, …")] = 1,
    protocol: options.Kind = "balanced",
    alpha: options.Alpha = 2.0,
    unlabeled: options.Unlabeled = 0,
    distractors: options.Distractors = 0,
    present: options.Present = 5,
    foreign: options.Foreign = 0.3,
    min_rows: options.MinRows = 0,
    base: options.Base = None,
    json_out: options.Json = None,
    form: options.Format = "text",
    device: options.Device = "cpu",
) -> None:
    """Compare several methods on the same episodes.

    Prints their accuracies and the paired differences to a reference method, with 95 % confidence intervals. With
    several feature files or seeds: the means over all runs, their spread, and p-values with Holm's correction for
    multiple comparisons.
    """
    from protoadapt.core.episodes import Protocol
    from protoadapt.core.methods import METHODS, NEED_BASE_COVARIANCE, NEED_BASE_MEAN, method, split_specs
    from protoadapt.core.results import document_of

    check(form, json_out, *files, base)
    if not 1 <= seeds <= 1000:
        raise UserError(f"--seeds is {seeds}: it must be a whole number from 1 to 1,000")
    if seed + seeds > 2**32:
        raise UserError(f"--seed {seed} with --seeds {seeds} goes beyond the largest seed, {2**32 - 1}: lower --seed")
    trained = load_head(head)
    tables = {file: read_table(file, base, min_rows, trained) for file in files}
    if len({table.hash for table in tables.values()}) < len(files):
        raise UserError("two of the files hold the same features: give each once")
    every, needy = methods == "all", set[str]()
    for table in tables.values():
        needy |= NEED_BASE_MEAN if table.base_mean is None else set()
        needy |= NEED_BASE_COVARIANCE if table.base_covariance is None else set()
    left_out = [name for name in METHODS if every and name in needy]
    specs = [name for name in METHODS if name not in left_out] if every else split_specs(methods)
    chosen = {one.label: one for one in map(method, specs)}  # a method that is named twice runs once
    if not chosen:
        raise UserError("no method is named: give --methods protonet,cipa or --methods all")
    if trained and trained.name in chosen:
        raise UserError(f"{trained.name} is a method and the head of {str(head)!r}: leave one of them out")
    own = trained.name if trained else ""
    against = reference if reference == own and own else method(reference).label if reference else next(iter(chosen))
    if against not in (*chosen, own):
        raise UserError(f"the reference {against!r} is not among the methods {', '.join(chosen)}: add it to --methods")
    drawn = Protocol(protocol, way, shot, query, alpha, unlabeled, distractors, present=present, foreign=foreign)
    if not every and len(chosen) < len(specs):
        say("note: a method that is named twice runs once")
    if len(dims := sorted({table.features.shape[1] for table in tables.values()})) > 1:
        say(f"note: the files have features of {' and '.join(map(str, dims))} dimensions")
    if left_out:
        say(f"left out, as they need features of the base classes (--base FILE): {', '.join(left_out)}")
    results = [
        result
        for table in tables.values()
        for run_seed in range(seed, seed + seeds)
        for result in measure(table, [*chosen.values()], drawn, episodes, run_seed, device, trained)
    ]
    show(
        results,
        against if len(chosen) + bool(trained) > 1 else None,
        form,
        json_out,
        document_of(results, reference=against),
    )
