"""`protoadapt evaluate`, and what `compare` does like it."""

from collections.abc import Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from protoadapt.cli import options
from protoadapt.cli.progress import bars
from protoadapt.core.errors import UserError
from protoadapt.core.files import check_output
from protoadapt.core.protocol import Protocol

if TYPE_CHECKING:
    from protoadapt.core.features import Features
    from protoadapt.core.methods import Method
    from protoadapt.vision.networks.head_files import TrainedHead


@options.grouped_options
def evaluate_command(
    file: Annotated[Path, options.argument("feature file, .safetensors or .npz", "FILE")],
    method_name: Annotated[
        str, options.option("name from `protoadapt methods`, or module:function (default: cipa)", flag="--method")
    ] = "",
    settings: options.Settings = None,
    *,
    asked: options.Measurement,
    protocol: Protocol,
) -> None:
    """Measure one method over thousands of episodes.

    Prints its accuracy with 95 % confidence intervals over episodes and over classes.
    """
    from protoadapt.core.methods import method, parse_assignments

    if asked.head and (method_name or settings):
        raise UserError("--head runs the head of a run, which has no settings: leave out --method and --set")
    methods = [] if asked.head else [method(method_name or "cipa", **parse_assignments(settings or []))]
    measure_files([file], methods, protocol, asked)


def measure_files(
    files: Sequence[Path], methods: "Sequence[Method]", protocol: Protocol, asked: options.Measurement
) -> None:
    """Measures methods, and after them the head of a run, on each file; prints the table and writes the results.

    Several files are several runs, which share one table. What would only fail after the work is refused before it.
    """
    from protoadapt.core.features import load_features, with_base
    from protoadapt.core.files import write_json
    from protoadapt.core.results import RESULTS, document_of
    from protoadapt.report.tables import check_format, render, render_runs

    check_format(asked.form)
    if asked.json_out:
        check_output(asked.json_out, *files, asked.base, kind=RESULTS)
    trained = None
    if asked.head:
        from protoadapt.vision.networks.head_files import load_head

        trained = load_head(asked.head)
        if trained.name in [method.label for method in methods]:
            raise UserError(f"{trained.name} is a method and the head of {str(asked.head)!r}: leave one of them out")
    tables = [load_features(file, maps=trained is not None and trained.module.places) for file in files]
    if asked.base:
        tables = [with_base(table, asked.base) for table in tables]
    if any((table.features < 0).any() for table in tables):
        methods = [method.for_signed_features() for method in methods]
    runs = [measure(table, methods, protocol, asked, trained) for table in tables]
    results = list(chain.from_iterable(runs))
    reference = runs[0][0]["label"] if len(runs[0]) > 1 else None
    if asked.json_out:
        write_json(asked.json_out, results[0] if len(results) == 1 else document_of(results, reference=reference))
    print((render if len(files) == 1 else render_runs)(results, reference, asked.form))


def measure(
    table: "Features",
    methods: "Sequence[Method | str]",
    protocol: Protocol,
    asked: options.Measurement,
    head: "TrainedHead | None" = None,
) -> list[dict[str, Any]]:
    """Results of several methods, and of a trained head after them, on the same episodes, in their JSON form."""
    from protoadapt.core.evaluate import compare

    device = options.find_device(asked.device, mps=False)
    parts: list[tuple[str, Any, Any, dict[str, Any]]] = []
    if methods:
        parts.append(("episodes", table.features, methods, table.base))
    if head:
        head.check(table)
        head.module.to(device)
        rows = table.maps if head.module.places else table.features
        parts.append((f"episodes of {head.name}", rows, [head.method], {}))
    results = []
    with bars() as report:
        for what, rows, chosen, given in parts:
            given = {**given, "seed": asked.seed, "device": device}
            given["on_progress"] = partial(report, what, total=asked.episodes)
            results += compare(rows, table.labels, chosen, protocol, episodes=asked.episodes, **given)
    return [result.to_json(**table.about) for result in results]
