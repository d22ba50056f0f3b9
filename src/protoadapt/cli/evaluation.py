"""What `evaluate` and `compare` share: the options of an episode protocol, and running methods on a feature file."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from protoadapt.cli.options import find_device
from protoadapt.cli.progress import progress
from protoadapt.core.errors import UserError, count
from protoadapt.core.files import check_output

if TYPE_CHECKING:
    from protoadapt.core.episodes import Protocol
    from protoadapt.core.features import Features
    from protoadapt.core.methods import Method

Way = Annotated[int, typer.Option(help="classes per episode")]
Shot = Annotated[int, typer.Option(help="labelled examples per class")]
Query = Annotated[int, typer.Option(help="queries per class; with dirichlet, their mean")]
EpisodeCount = Annotated[int, typer.Option("--episodes", help="number of episodes")]
Seed = Annotated[int, typer.Option(help="random seed: the same seed draws the same episodes")]
Kind = Annotated[
    str,
    typer.Option(
        "--protocol",
        help="balanced: equal classes; dirichlet: imbalanced queries; semi: unlabelled examples beside the queries",
    ),
]
Alpha = Annotated[float, typer.Option(help="with dirichlet: concentration of the class shares; small is imbalanced")]
Unlabeled = Annotated[int, typer.Option(help="with semi: unlabelled examples per class")]
Distractors = Annotated[int, typer.Option(help="with semi: number of other classes among the unlabelled ones")]
MinRows = Annotated[int, typer.Option(help="leave out classes with fewer examples")]
Base = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="features of the base classes, for methods that centre by their mean"),
]
Json = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="also write the result as JSON")]
Format = Annotated[str, typer.Option("--format", help="format of the printed table: text, markdown, csv or latex")]


def check(form: str, json_out: Path | None, *inputs: Path | None) -> None:
    """Refuse before the work what would only fail after it."""
    from protoadapt.report.tables import check_format

    check_format(form)
    if json_out:
        check_output(json_out, *inputs)


def read_table(file: Path, base: Path | None, min_rows: int) -> "Features":
    """A feature file without its small classes, with the mean of `base` where that is given."""
    from dataclasses import replace

    import numpy as np
    import torch

    from protoadapt.core.features import base_mean_of, load_features

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


def run(
    table: "Features", methods: list["Method"], protocol: "Protocol", episodes: int, seed: int, device: str
) -> list[dict[str, Any]]:
    """Results of several methods on the same episodes, in their JSON form."""
    from protoadapt.core.episodes import redrawn
    from protoadapt.core.evaluate import compare

    device = find_device(device)
    if (share := redrawn(table.labels.numpy(), protocol)) > 0.1:
        print(
            f"note: {share:.0%} of Dirichlet({protocol.alpha:g}) draws need more rows than a class has and are drawn "
            f"again, so classes are less imbalanced than requested: lower --query",
            file=sys.stderr,
        )
    with progress("episodes", episodes) as report:
        results = compare(
            table.features,
            table.labels,
            methods,
            protocol,
            episodes=episodes,
            seed=seed,
            base_mean=table.base_mean,
            device=device,
            on_progress=report,
        )
    return [result.to_json(**table.about) for result in results]


def show(
    results: list[dict[str, Any]], reference: str | None, form: str, json_out: Path | None, content: dict[str, Any]
) -> None:
    """Write `content` as JSON where asked to, and print the table: of one run, or of all runs together."""
    from protoadapt.core.files import write_json
    from protoadapt.report.run_tables import render_runs
    from protoadapt.report.tables import render

    if json_out:
        write_json(json_out, content)
    runs = {(result["features"].get("hash"), result["seed"]) for result in results}
    print(render(results, reference, form) if len(runs) == 1 else render_runs(results, reference, form))
