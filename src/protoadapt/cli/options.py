"""Options that several verbs have: each is declared once and means the same everywhere."""

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any

import typer

from protoadapt.core.errors import UserError
from protoadapt.core.protocol import NEED_BASE_MEAN, Protocol


def option(help: str, metavar: str | None = None, *, flag: str | None = None, **more: Any) -> Any:
    """An option of a verb. `flag` is its spelling, where that is not the parameter's."""
    return typer.Option(*filter(None, [flag]), help=help, metavar=metavar, **more)


def argument(help: str, metavar: str) -> Any:
    """A word of a command line that needs no option."""
    return typer.Argument(help=help, metavar=metavar)


PROTOCOL_HELP = {
    "kind": "balanced: equal classes; dirichlet: imbalanced queries; semi: unlabelled examples beside the queries; "
    "present: queries of --present classes only; one-class: of one class; few: --query in all; open: some queries "
    "are of other classes",
    "way": "classes per episode",
    "shot": "labelled examples per class",
    "query": "queries per class; with dirichlet and present, the average; with one-class and few, in all",
    "alpha": "with dirichlet: concentration of the class shares; small is imbalanced",
    "unlabeled": "with semi: unlabelled examples per class",
    "distractors": "with semi: extra classes that appear only among the unlabelled images",
    "present": "with present: classes that are among the queries",
    "foreign": "with open: share of the queries that are of other classes",
}


BASE_HELP = f"features of the base classes, which {', '.join(NEED_BASE_MEAN[:-1])} and {NEED_BASE_MEAN[-1]} use"
MODEL_HELP = "network: a name that `protoadapt models` lists, NAME+NAME, timm:NAME, a training run, or a model file"
Model = Annotated[str, argument(MODEL_HELP, "MODEL")]
ModelName = Annotated[str, option(MODEL_HELP)]
Device = Annotated[str, option("cpu, cuda, cuda:1, mps, …; auto: a GPU if there is one")]
DATASETS_HELP = "dataset: mini-imagenet, tiered-imagenet, cifar-fs, fc100, cub, glyphs or folder"
DatasetName = Annotated[str, option(DATASETS_HELP, "NAME", flag="--dataset")]
DataDir = Annotated[Path | None, option("directory that holds the dataset", "DIR", flag="--data")]
Cache = Annotated[Path | None, option("directory for decoded pictures (default: in --data, else beside --out)", "DIR")]
FeatureCache = Annotated[Path | None, option("directory for computed features (default: OUT/.features)", "DIR")]
SkipCorrupt = Annotated[bool, option("skip unreadable pictures instead of stopping", flag="--skip-corrupt")]
SETTINGS_HELP = "setting of the method (`protoadapt methods`); repeatable"
Settings = Annotated[list[str] | None, option(SETTINGS_HELP, "NAME=VALUE", flag="--set")]
Sort = Annotated[
    str | None,
    option("copy or link the pictures into OUT/sorted/CLASS/; unknown ones into OUT/sorted/unknown/", "copy|link"),
]
Seed = Annotated[int, option("random seed: the same seed draws the same episodes")]


@dataclass(frozen=True)
class Measurement:
    """What `evaluate` and `compare` are asked for beside methods and protocol."""

    head: Annotated[
        Path | None, option("run whose trained few-shot head answers, on features of its own network", "RUN")
    ] = None
    episodes: Annotated[int, option("number of episodes")] = 10_000
    seed: Seed = 0
    base: Annotated[Path | None, option(BASE_HELP, "FILE")] = None
    json_out: Annotated[Path | None, option("also write the result as JSON", "FILE", flag="--json")] = None
    form: Annotated[str, option("format of the printed table: text, markdown, csv or latex", flag="--format")] = "text"
    device: Device = "cpu"


def _protocol_option(name: str, help: str) -> Parameter:
    default = getattr(Protocol, name)
    declared: Any = Annotated[type(default), option(help, flag="--protocol" if name == "kind" else None)]
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=declared)


GROUPS: dict[Any, list[Parameter]] = {
    Measurement: [*signature(Measurement).parameters.values()],
    Protocol: [_protocol_option(*each) for each in PROTOCOL_HELP.items()],
}
"""Types of parameters that stand for several options."""


def grouped_options(verb: Callable[..., None]) -> Callable[..., None]:
    """Gives a verb, in place of each parameter of a type in GROUPS, the options of that group."""
    own = signature(verb, eval_str=True).parameters.values()
    groups = {each.name: each.annotation for each in own if each.annotation in GROUPS}
    spread = [one.replace(kind=Parameter.KEYWORD_ONLY) for each in own for one in GROUPS.get(each.annotation, [each])]

    def command(**given: Any) -> None:
        for name, kind in groups.items():
            given[name] = kind(**{one.name: given.pop(one.name) for one in GROUPS[kind]})
        verb(**given)

    command.__signature__ = Signature(spread)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in spread}
    command.__doc__ = verb.__doc__
    return command


def refuse_unused(given: Mapping[str, object], where: str) -> None:
    """Raises UserError where one of these options is given, with a value other than None and False, which nobody would
    read; `where` says with or without what."""
    if unused := [name for name, value in given.items() if value not in (None, False)]:
        has, it = ("has", "it") if len(unused) == 1 else ("have", "them")
        raise UserError(f"{' and '.join(unused)} {has} no effect {where}: leave {it} out")


GPU_FILES = ("/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg", "/dev/kfd")
"""On Linux one of these is there where torch.cuda has a device: NVIDIA's, Windows' below Linux, AMD's."""


def find_device(name: str, mps: bool = True) -> str:
    """A device that torch can compute on; "auto" is a GPU if there is one. Torch is not loaded to find that none is.

    mps: whether "auto" may be Apple's, which has no float64: networks do without it, methods do not.
    """
    if name == "cpu" or (name == "auto" and sys.platform == "linux" and not any(map(os.path.exists, GPU_FILES))):
        return "cpu"
    import torch

    from protoadapt.core.arrays import checked_device

    if name == "auto":
        apple = mps and torch.backends.mps.is_available()
        return "cuda" if torch.cuda.is_available() else "mps" if apple else "cpu"
    return str(checked_device(name))
