"""`protoadapt tune`."""

import re
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from protoadapt.cli import options
from protoadapt.cli.progress import bars
from protoadapt.core.files import check_output
from protoadapt.core.protocol import Protocol

_SETTINGS = re.compile(rb'\A\{\s*"method": *"[^"]*",\s*"arguments": *\{')
"""How a file of settings begins."""


@options.grouped_options
def tune_command(
    file: Annotated[Path, options.argument("feature file of validation classes", "FILE")],
    out: Annotated[Path, options.option("settings as JSON; use them with --method FILE", "FILE")],
    method_name: Annotated[str, options.option("method to tune: bapa or paddle", flag="--method")] = "bapa",
    episodes: Annotated[int, options.option("number of tasks to try them on")] = 256,
    seed: options.Seed = 0,
    device: options.Device = "cpu",
    *,
    protocol: Protocol,
) -> None:
    """Find settings that suit a kind of tasks, on validation classes.

    Use a network's validation classes, never the classes that the method is then measured on.
    """
    from protoadapt.core.evaluate import tune
    from protoadapt.core.features import load_features
    from protoadapt.core.files import write_json

    check_output(out, file, kind=_SETTINGS)
    table = load_features(file)
    given: dict[str, Any] = {"episodes": episodes, "seed": seed, "device": options.find_device(device, mps=False)}
    with bars() as report:
        show = partial(report, f"tasks of tuning {method_name}", total=episodes)
        found = tune(table.features, table.labels, method_name, protocol, **given, on_progress=show)
    write_json(out, {"method": method_name, "arguments": found})
    print(f"settings of {method_name} that suit {episodes:,} tasks: {out}")
