"""`protoadapt demo`."""

from pathlib import Path
from typing import Annotated

from protoadapt.cli.options import option


def demo_command(out: Annotated[Path, option("directory for the results", "DIR")] = Path("demo")) -> None:
    """Train, evaluate, report and label on built-in pictures.

    Takes a few minutes on two cores and needs no data. After an interruption the same command continues.
    """
    from protoadapt.cli import demo_run

    demo_run.run_demo(out)
