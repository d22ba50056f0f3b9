"""`protoadapt compare`."""

from pathlib import Path
from typing import Annotated

from protoadapt.cli import options
from protoadapt.cli.evaluate_command import measure_files
from protoadapt.core.errors import UserError
from protoadapt.core.protocol import Protocol

DEFAULT = "protonet,semi_protonet,cipa,pt_map"


@options.grouped_options
def compare_command(
    files: Annotated[list[Path], options.argument("feature files, .safetensors or .npz", "FILE")],
    methods: Annotated[str, options.option("names separated by commas: protonet,cipa(sigma=1)")] = DEFAULT,
    *,
    asked: options.Measurement,
    protocol: Protocol,
) -> None:
    """Compare several methods on the same episodes.

    Prints their accuracies and the paired differences to the first, with 95 % confidence intervals. With several
    feature files: the means over all runs, their spread, and p-values with Holm's correction for multiple comparisons.
    """
    from protoadapt.core.methods import METHODS, method, split_specs

    chosen = {one.label: one for one in map(method, split_specs(methods))}  # each once
    if not chosen:
        raise UserError("no method is named: give --methods protonet,cipa")
    if stray := [str(file) for file in files if str(file) in METHODS and not file.exists()]:
        together = ",".join([methods, *stray])
        raise UserError(f"{stray[0]!r} is a method, not a file: separate methods by commas, --methods {together}")
    measure_files(files, [*chosen.values()], protocol, asked)
