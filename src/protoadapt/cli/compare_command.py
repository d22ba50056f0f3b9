"""`protoadapt compare`."""

from itertools import chain
from pathlib import Path
from typing import Annotated

from protoadapt.cli import options
from protoadapt.cli.evaluate_command import check_outputs, load_trained_head, measure, read_table, show
from protoadapt.cli.progress import say
from protoadapt.core.errors import UserError
from protoadapt.core.protocol import Protocol

DEFAULT = "protonet,semi_protonet,cipa,pt_map"


@options.protocol_options
def compare_command(
    files: Annotated[list[Path], options.argument("feature files, .safetensors or .npz", "FILE")],
    protocol: Protocol,
    methods: Annotated[str, options.option("names separated by commas: protonet,cipa(sigma=1)")] = DEFAULT,
    head: options.Head = None,
    episodes: options.EpisodeCount = 10_000,
    seed: options.Seed = 0,
    min_rows: options.MinRows = 0,
    base: options.Base = None,
    json_out: options.Json = None,
    form: options.Format = "text",
    device: options.Device = "cpu",
) -> None:
    """Compare several methods on the same episodes.

    Prints their accuracies and the paired differences to the first, with 95 % confidence intervals. With several
    feature files: the means over all runs, their spread, and p-values with Holm's correction for multiple comparisons.
    """
    from protoadapt.core.methods import method, split_specs
    from protoadapt.core.results import document_of

    check_outputs(form, json_out, *files, base)
    trained = load_trained_head(head)
    tables = [read_table(file, base, min_rows, trained) for file in files]
    if len({table.hash for table in tables}) < len(files):
        raise UserError("two of the files hold the same features: give each once")
    specs = split_specs(methods)
    chosen = {one.label: one for one in map(method, specs)}
    if not chosen:
        raise UserError("no method is named: give --methods protonet,cipa")
    if trained and trained.name in chosen:
        raise UserError(f"{trained.name} is a method and the head of {str(head)!r}: leave one of them out")
    if len(chosen) < len(specs):
        say("note: a method that is named twice runs once")
    if len(dims := sorted({table.features.shape[1] for table in tables})) > 1:
        say(f"note: the files have features of {' and '.join(map(str, dims))} dimensions")
    measured = [measure(table, [*chosen.values()], protocol, episodes, seed, device, trained) for table in tables]
    reference, results = next(iter(chosen)), list(chain.from_iterable(measured))
    document = document_of(results, reference=reference)
    show(results, reference if len(measured[0]) > 1 else None, form, json_out, document)
