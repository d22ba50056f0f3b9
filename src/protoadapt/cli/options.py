"""Options that several verbs share: each is declared once and means the same everywhere."""

from pathlib import Path
from typing import Annotated

import typer

from protoadapt.core.errors import UserError

MODEL_HELP = "network: a name that `protoadapt models` lists, timm:NAME, a training run, or a model file"
Model = Annotated[str, typer.Argument(metavar="MODEL", help=MODEL_HELP)]
ModelName = Annotated[str, typer.Option(help=MODEL_HELP)]
Device = Annotated[str, typer.Option(help="cpu, cuda, cuda:1, …; auto: a GPU if there is one")]
DatasetName = Annotated[
    str,
    typer.Option(
        "--dataset",
        metavar="NAME",
        help="dataset: mini-imagenet, tiered-imagenet, cifar-fs, fc100, cub, glyphs or folder",
    ),
]
DataDir = Annotated[Path | None, typer.Option("--data", metavar="DIR", help="directory that holds the dataset")]
Cache = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="directory for decoded pictures (default: in --data, else beside --out)"),
]
SkipCorrupt = Annotated[bool, typer.Option("--skip-corrupt", help="skip unreadable pictures instead of stopping")]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="NAME=VALUE", help="change a setting of the method (`protoadapt methods`); repeatable"
    ),
]


def find_device(name: str) -> str:
    """A device that torch can compute on; "auto" is a GPU if there is one."""
    import torch

    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        if torch.device(name).type not in ("cpu", "cuda", "mps", "xpu") or name.startswith("cpu:"):
            raise RuntimeError("not a device to compute on")
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0][:100]
        raise UserError(f"device {name!r} cannot be used here: use --device cpu ({reason})") from error
    return name
