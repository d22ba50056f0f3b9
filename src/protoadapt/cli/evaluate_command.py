"""`protoadapt evaluate`, and what `compare` does like it."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from protoadapt.cli import options
from protoadapt.cli.progress import bars, say
from protoadapt.core.errors import UserError, count
from protoadapt.core.files import check_output
from protoadapt.core.protocol import Protocol

if TYPE_CHECKING:
    from protoadapt.core.features import Features
    from protoadapt.core.methods import Method
    from protoadapt.vision.networks.head_files import TrainedHead


@options.protocol_options
def evaluate_command(
    file: Annotated[Path, options.argument("feature file, .safetensors or .npz", "FILE")],
    protocol: Protocol,
    method_name: Annotated[
        str, options.option("name from `protoadapt methods`, or module:function (default: cipa)", flag="--method")
    ] = "",
    head: options.Head = None,
    episodes: options.EpisodeCount = 10_000,
    seed: options.Seed = 0,
    min_rows: options.MinRows = 0,
    base: options.Base = None,
    settings: options.Settings = None,
    json_out: options.Json = None,
    form: options.Format = "text",
    device: options.Device = "cpu",
) -> None:
    """Measure one method over thousands of episodes.

    Prints its accuracy with 95 % confidence intervals over episodes and over classes.
    """
    from protoadapt.core.methods import method, parse_assignments

    check_outputs(form, json_out, file, base)
    if head and (method_name or settings):
        raise UserError("--head runs the head of a run, which has no settings: leave out --method and --set")
    trained = load_trained_head(head)
    chosen = [] if trained else [method(method_name or "cipa", **parse_assignments(settings or []))]
    results = measure(read_table(file, base, min_rows, trained), chosen, protocol, episodes, seed, device, trained)
    show(results, None, form, json_out, results[0])


def check_outputs(form: str, json_out: Path | None, *inputs: Path | None) -> None:
    """Refuse before the work what would only fail after it."""
    from protoadapt.report.tables import check_format

    check_format(form)
    if json_out:
        check_output(json_out, *inputs)


def load_trained_head(run: Path | None) -> "TrainedHead | None":
    """The few-shot head of a run, where one is given."""
    if run is None:
        return None
    from protoadapt.vision.networks import head_files

    return head_files.load_head(run)


def read_table(file: Path, base: Path | None, min_rows: int, head: "TrainedHead | None" = None) -> "Features":
    """A feature file without its small classes, with the mean of `base` where that is given, checked for the head."""
    from dataclasses import replace

    import numpy as np
    import torch

    from protoadapt.core.features import load_features, with_base

    table = load_features(file, maps=head is not None and head.module.places)
    if head:
        head.check(table)
    classes, place, rows = np.unique(table.labels.numpy(), return_inverse=True, return_counts=True)
    if (small := (classes >= 0) & (rows < min_rows)).any():
        if small.sum() == (classes >= 0).sum():
            raise UserError(f"no class has {min_rows} rows, the largest {rows[small].max()}: lower --min-rows")
        say(f"left out: {count(small.sum(), 'class', 'classes')} with fewer than {min_rows} rows")
        labels = table.labels.masked_fill(torch.from_numpy(small[place]), -1)
        table = replace(table, labels=labels, metadata={**table.metadata, "min_rows": min_rows})
    return with_base(table, base) if base else table


def measure(
    table: "Features",
    methods: "Sequence[Method | str]",
    protocol: Protocol,
    episodes: int,
    seed: int,
    device: str,
    head: "TrainedHead | None" = None,
) -> list[dict[str, Any]]:
    """Results of several methods, and of a trained head after them, on the same episodes, in their JSON form."""
    from protoadapt.core.episodes import redrawn
    from protoadapt.core.evaluate import compare

    device = options.find_device(device)
    if (share := redrawn(table.labels.numpy(), protocol)) > 0.1:
        say(
            f"note: {share:.0%} of Dirichlet({protocol.alpha:g}) draws need more rows than a class has and are drawn "
            f"again, so classes are less imbalanced than requested: lower --query"
        )
    parts: list[tuple[str, Any, Any, dict[str, Any]]] = []
    if methods:
        parts.append(("episodes", table.features, methods, table.base))
    if head:
        rows = table.maps if head.module.places else table.features
        head.module.to(device)
        parts.append((f"episodes of {head.name}", rows, [head.method], {}))
    results = []
    with bars() as report:
        for what, rows, chosen, given in parts:
            given = {**given, "on_progress": partial(report, what, total=episodes)}
            results += compare(
                rows, table.labels, chosen, protocol, episodes=episodes, seed=seed, device=device, **given
            )
    return [result.to_json(**table.about) for result in results]


def show(
    results: list[dict[str, Any]], reference: str | None, form: str, json_out: Path | None, content: dict[str, Any]
) -> None:
    """Write `content` as JSON where asked to, and print the table: of one run, or of all runs together."""
    from protoadapt.core.files import write_json
    from protoadapt.report.tables import render, render_runs

    if json_out:
        write_json(json_out, content)
    one_run = len({result["features"].get("hash") for result in results}) == 1
    print((render if one_run else render_runs)(results, reference, form))
