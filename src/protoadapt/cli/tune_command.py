"""`protoadapt tune`."""

from pathlib import Path
from typing import Annotated

import typer

from protoadapt.cli import options
from protoadapt.cli.progress import bars
from protoadapt.core.files import check_output


def tune_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="feature file of validation classes")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="settings as JSON; use them with --method FILE")],
    method_name: Annotated[str, typer.Option("--method", help="method to tune: bapa, paddle or unem")] = "unem",
    way: options.Way = 5,
    shot: options.Shot = 1,
    query: options.Query = 15,
    protocol: options.Kind = "balanced",
    alpha: options.Alpha = 2.0,
    present: options.Present = 5,
    episodes: Annotated[int, typer.Option(help="number of tasks to learn on")] = 256,
    seed: options.Seed = 0,
    device: options.Device = "cpu",
) -> None:
    """Find settings that suit a kind of tasks, on validation classes.

    Use a network's validation classes, never the classes that the method is then measured on.
    """
    from protoadapt.core.features import load_features
    from protoadapt.core.files import write_json
    from protoadapt.core.protocol import Protocol
    from protoadapt.core.tune import tune

    check_output(out, file)
    table = load_features(file)
    drawn = Protocol(protocol, way, shot, query, alpha, present=present)
    device = options.find_device(device)
    with bars() as report:
        found = tune(
            table.features,
            table.labels,
            method_name,
            drawn,
            episodes=episodes,
            seed=seed,
            device=device,
            on_progress=lambda share: report(f"% of tuning {method_name}", round(100 * share), 100),
        )
    about = {key: table.about.get(key) for key in ("dataset", "split", "weights", "hash")}
    write_json(out, {"method": method_name, "arguments": found, "learned_on": about | vars(drawn)})
    print(f"settings of {method_name} that suit {episodes:,} tasks: {out}")
