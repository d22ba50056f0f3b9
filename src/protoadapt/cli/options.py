"""Options that several verbs have: each is declared once and means the same everywhere."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from protoadapt.core.errors import UserError

DEFAULT_MODEL = "lite0"
MODEL_HELP = "network: a name that `protoadapt models` lists, NAME+NAME, timm:NAME, a training run, or a model file"
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
FeatureCache = Annotated[
    Path | None, typer.Option(metavar="DIR", help="directory for computed features (default: OUT/.features)")
]
SkipCorrupt = Annotated[bool, typer.Option("--skip-corrupt", help="skip unreadable pictures instead of stopping")]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="NAME=VALUE", help="change a setting of the method (`protoadapt methods`); repeatable"
    ),
]
Sort = Annotated[str | None, typer.Option(metavar="copy|link", help="copy or link the pictures into OUT/sorted/CLASS/")]
SortUnknown = Annotated[
    str | None,
    typer.Option(
        metavar="together|apart",
        help="with --sort: unknown pictures go to the folder of their likeliest class (default), or to sorted/unknown/",
    ),
]
Head = Annotated[
    Path | None,
    typer.Option(metavar="RUN", help="run whose trained few-shot head answers, on features of its own network"),
]
Way = Annotated[int, typer.Option(help="classes per episode")]
Shot = Annotated[int, typer.Option(help="labelled examples per class")]
Query = Annotated[
    int, typer.Option(help="queries per class; with dirichlet and present, the average; with one-class and few, in all")
]
EpisodeCount = Annotated[int, typer.Option("--episodes", help="number of episodes")]
Seed = Annotated[int, typer.Option(help="random seed: the same seed draws the same episodes")]
Kind = Annotated[
    str,
    typer.Option(
        "--protocol",
        help="balanced: equal classes; dirichlet: imbalanced queries; semi: unlabelled examples beside the queries; "
        "present: queries of --present classes only; one-class: of one class; few: --query in all; open: some queries "
        "are of other classes",
    ),
]
Alpha = Annotated[float, typer.Option(help="with dirichlet: concentration of the class shares; small is imbalanced")]
Unlabeled = Annotated[int, typer.Option(help="with semi: unlabelled examples per class")]
Distractors = Annotated[int, typer.Option(help="with semi: extra classes that appear only among the unlabelled images")]
Present = Annotated[int, typer.Option(help="with present: classes that are among the queries")]
Foreign = Annotated[float, typer.Option(help="with open: share of the queries that are of other classes")]
MinRows = Annotated[int, typer.Option(min=0, help="leave out classes with fewer than this many rows")]
Base = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="feature file of the base classes, whose mean or covariance simpleshot, bd_cspn, laplacian_shot and "
        "bavardage use",
    ),
]
Json = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="also write the result as JSON")]
Format = Annotated[str, typer.Option("--format", help="format of the printed table: text, markdown, csv or latex")]


def refuse_unused(given: Mapping[str, object], where: str) -> None:
    """Raises UserError where one of these options is given, with a value other than None and False, which nobody would
    read; `where` says with or without what."""
    if unused := [option for option, value in given.items() if value not in (None, False)]:
        has, it = ("has", "it") if len(unused) == 1 else ("have", "them")
        raise UserError(f"{' and '.join(unused)} {has} no effect {where}: leave {it} out")


GPU_FILES = ("/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg", "/dev/kfd")
"""On Linux one of these is there where torch.cuda has a device: NVIDIA's, Windows' below Linux, AMD's."""


def find_device(name: str) -> str:
    """A device that torch can compute on; "auto" is a GPU if there is one. Torch is not loaded to find that none is."""
    if name == "cpu" or (name == "auto" and sys.platform == "linux" and not any(map(os.path.exists, GPU_FILES))):
        return "cpu"
    import torch

    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if name.partition(":")[0] not in ("cuda", "mps", "xpu"):
        raise UserError(f"there is no device {name!r}: give cpu, cuda, cuda:N or auto")
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0][:100]
        raise UserError(f"device {name!r} cannot be used here: use --device cpu ({reason})") from error
    return name
