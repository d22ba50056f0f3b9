"""Accuracy of methods over thousands of episodes, each method on the same ones, and settings chosen by it."""

import time
import traceback
from collections.abc import Callable, Sequence
from itertools import count, product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from protoadapt.core.arrays import as_tensor, checked_device, checked_rows
from protoadapt.core.episodes import Episodes, draw
from protoadapt.core.errors import UserError, whole_number
from protoadapt.core.methods import Method, method
from protoadapt.core.protocol import MOST_EPISODES, Protocol
from protoadapt.core.results import Result
from protoadapt.core.threads import ahead

_CHUNK = {"cpu": (2**30, 512), "gpu": (4 * 2**30, 2560)}
"""Memory that the episodes of a chunk may take by estimate, and their number: larger chunks are no faster."""


def evaluate(
    features: Tensor | np.ndarray,
    labels: Tensor | np.ndarray,
    spec: str | Callable[..., Tensor] | Method = "cipa",
    protocol: Protocol | None = None,
    **options: Any,
) -> Result:
    """Accuracy of one method over many episodes.

    Parameters
    ----------
    features : array (N, D)
    labels : array (N,)
        −1 for rows that are never drawn.
    spec : str, function or Method, default "cipa"
        A name from METHODS, with settings as in "cipa(sigma=1)", "package.module:function", or a function
        `Episodes → probabilities (E, Q, W)`.
    protocol : Protocol, optional
        How episodes are drawn; default: 5-way 1-shot, 15 queries per class.
    **options
        As in `compare`: episodes, seed, base_mean, base_covariance, device, on_progress.

    Returns
    -------
    Result

    Examples
    --------
    >>> result = evaluate(features, labels, "cipa", Protocol(shot=5), episodes=1000)
    >>> f"{result.accuracy:.2f} ± {result.ci95:.2f}"
    """
    return compare(features, labels, [spec], protocol, **options)[0]


def compare(
    features: Tensor | np.ndarray,
    labels: Tensor | np.ndarray,
    specs: Sequence[str | Callable[..., Tensor] | Method],
    protocol: Protocol | None = None,
    *,
    episodes: int = 10_000,
    seed: int = 0,
    base_mean: Tensor | np.ndarray | None = None,
    base_covariance: Tensor | np.ndarray | None = None,
    device: torch.device | str = "cpu",
    on_progress: Callable[[int], None] = lambda done: None,
) -> list[Result]:
    """Accuracies of several methods on the same episodes.

    Parameters
    ----------
    features : array (N, D)
    labels : array (N,)
        −1 for rows that are never drawn.
    specs : sequence
        Methods, each as in `evaluate`.
    protocol : Protocol, optional
        Default: 5-way 1-shot, 15 queries per class.
    episodes : int, default 10,000
    seed : int, default 0
        Episode i depends on the seed alone, whatever the chunk, the device and the number of episodes.
    base_mean : array (D,), optional
        Mean of the base classes' features, for methods that centre by it.
    base_covariance : array (D, D), optional
        Their covariance within classes (`features.within_class_covariance`), for bavardage and whiten.
    device : str or torch.device, default "cpu"
    on_progress : function of int, optional
        Called with the number of episodes that all methods have done.

    Returns
    -------
    list of Result
        One per method, in order. `results[1].minus(results[0])` is a paired difference.

    Examples
    --------
    >>> protonet, cipa = compare(features, labels, ["protonet", "cipa"])
    >>> cipa.minus(protonet)  # points, and the 95 % half-width
    """
    protocol = protocol or Protocol()
    methods = [method(spec) for spec in specs]
    rows, row_labels, _ = checked_rows(features, labels)
    whole_number("episodes", episodes, 1, MOST_EPISODES)
    rows = rows.to(checked_device(device))
    given = {"base_mean": base_mean, "base_covariance": base_covariance}
    base: dict[str, Any] = {name: _base(name, value, rows) for name, value in given.items() if value is not None}
    classes = np.unique(row_labels[row_labels >= 0])
    class_of_row = np.searchsorted(classes, row_labels)
    correct = np.zeros((len(methods), episodes), dtype=np.int64)
    auroc = np.zeros((len(methods), episodes)) if protocol.foreign_queries else None
    class_episodes = np.zeros(len(classes), np.int64)
    class_correct = np.zeros((len(methods), len(classes)), np.int64)
    seconds = np.zeros(len(methods))
    done = 0
    with torch.no_grad():
        first = next(draw(row_labels, protocol, seed, 1))
        for run in methods:  # before the clock starts: this compiles inner loops, and mistakes show at once
            _answers(run, first.episodes(rows, protocol.way, **base))
        # As many at a time as fit into memory in the most demanding method.
        memory, most = _CHUNK["cpu" if rows.device.type == "cpu" else "gpu"]
        shape = first.rows.shape[1], protocol.way, rows.shape[1], rows.dtype.itemsize
        largest = max((episode_bytes(run.function, *shape) for run in methods), default=1)
        chunks = draw(row_labels, protocol, seed, episodes, max(1, min(most, memory // largest)))
        base["memo"] = {}  # work on single rows, done once for all chunks
        # A thread draws the next chunk while methods compute, which leaves it a core wherever they drop Python's lock.
        coming = ahead(lambda _: next(chunks, None), count(), 1, threads=1)
        start = time.perf_counter()
        while drawn := next(coming):
            batch = drawn.episodes(rows, protocol.way, **base)
            seconds += time.perf_counter() - start
            now = slice(done, done + len(batch))
            for m, run in enumerate(methods):
                start = time.perf_counter()
                answer, sure = _answers(run, batch)
                correct[m, now] = (answer == drawn.query_labels).sum(1)
                seconds[m] += time.perf_counter() - start
                if auroc is not None:
                    auroc[m, now] = _auroc(sure, drawn.query_labels >= 0)
            members = np.zeros((len(batch), len(classes)), bool)  # classes without support are among the others
            np.put_along_axis(members, class_of_row[drawn.rows], True, 1)
            class_episodes += members.sum(0)
            class_correct += correct[:, now] @ members
            done += len(batch)
            on_progress(done)
            start = time.perf_counter()
    return [
        Result(
            method=run,
            protocol=protocol,
            seed=seed,
            correct=correct[m],
            seconds=float(seconds[m]),
            device=str(rows.device),
            class_episodes=class_episodes,
            class_correct=class_correct[m],
            unknown_auroc=None if auroc is None else auroc[m],
        )
        for m, run in enumerate(methods)
    ]


def _base(name: str, value: Tensor | np.ndarray, rows: Tensor) -> Tensor:
    """A statistic of the base classes' features, in the rows' type and place."""
    tensor = as_tensor(value, name).to(rows)
    dim = rows.shape[1]
    shape = (dim, dim) if name == "base_covariance" else (dim,)
    if tensor.shape != shape or not torch.isfinite(tensor).all():
        raise UserError(
            f"{name} has shape {tuple(tensor.shape)}: it must have {shape} and hold finite numbers; compute it from "
            f"the base classes' features"
        )
    return tensor


def episode_bytes(function: Callable[..., Tensor], n_rows: int, n_way: int, dim: int, itemsize: int = 4) -> int:
    """An upper estimate of the bytes that an episode of n_rows rows, all kinds together, takes in any method."""
    numbers = n_rows * (8 * dim + 10 * n_rows) + n_way * (12 * n_rows + 8 * dim)
    if more := getattr(function, "episode_numbers", None):  # a trained head knows its own
        numbers += more(n_rows, n_way)
    return int(numbers * itemsize)


def _auroc(sure: np.ndarray, known: np.ndarray) -> np.ndarray:
    """(E,): how often a known query is surer than a foreign one, ties half, from `sure` and `known` (E, Q).

    Every episode has as many known queries as any other.
    """
    known_sure, foreign_sure = sure[known].reshape(len(sure), -1, 1), sure[~known].reshape(len(sure), 1, -1)
    return ((known_sure > foreign_sure) + (known_sure == foreign_sure) / 2).mean((1, 2))


def _answers(run: Method, batch: Episodes) -> tuple[np.ndarray, np.ndarray]:
    """The class of the largest probability, and that probability, both (E, Q).

    In numpy: torch would wake its threads for so little work, and they stay awake beside the compiled loops.
    """
    try:
        answer = run(batch)
    except Exception as error:
        if isinstance(error, UserError) or run.function.__module__.startswith("protoadapt."):
            raise
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(last.filename).name}, line {last.lineno}"
        raise UserError(f"method {run.label} failed with {type(error).__name__}: {error} ({where})") from error
    shape = (*batch.query_index.shape, batch.n_way)
    if not isinstance(answer, Tensor) or answer.shape != shape or answer.is_complex():
        got = tuple(answer.shape) if isinstance(answer, Tensor) else type(answer).__name__
        raise UserError(f"method {run.label} returned {got}: it must return (episodes, queries, way) = {shape}")
    probabilities = answer.detach().to("cpu", torch.promote_types(answer.dtype, torch.float32)).numpy()
    if not np.isfinite(probabilities).all():
        raise UserError(f"method {run.label} returned NaN or infinite probabilities: check its arguments")
    return probabilities.argmax(-1), probabilities.max(-1)


GRIDS: dict[str, dict[str, tuple[float | None, ...]]] = {
    "bapa": {"lam": (5, 8, 11, 15, 20), "kappa": (0.5, 1, 2, 4)},
    "paddle": {"scale": (None, 6, 8, 10, 12, 16, 24)},
}
"""The methods that can be tuned, and the values that are tried beside the defaults, which win ties."""


def tune(
    features: Tensor | np.ndarray,
    labels: Tensor | np.ndarray,
    name: str = "bapa",
    protocol: Protocol | None = None,
    *,
    episodes: int = 256,
    **options: Any,
) -> dict[str, Any]:
    """The settings of a method that fit tasks of validation classes: its defaults and every combination of its GRIDS
    are tried.

    Parameters
    ----------
    features : array (N, D)
    labels : array (N,)
        Of validation classes, never of those that the method is measured on.
    name : str, default "bapa"
        bapa or paddle.
    protocol : Protocol, optional
        The tasks to try them on; default: 5-way 1-shot, 15 queries per class.
    episodes : int, default 256
    **options
        As in `compare`: seed, base_mean, base_covariance, device, on_progress.

    Returns
    -------
    dict
        Arguments of the method.

    Examples
    --------
    >>> settings = tune(validation.features, validation.labels, "paddle", Protocol("dirichlet"))
    >>> evaluate(novel.features, novel.labels, method("paddle", **settings), Protocol("dirichlet"))
    """
    if name not in GRIDS:
        raise UserError(f"{name!r} has no settings to tune: choose {' or '.join(GRIDS)}")
    combinations = [dict(zip(GRIDS[name], values)) for values in product(*GRIDS[name].values())]
    tried = [method(name), *(method(name, **one) for one in combinations)]
    results = compare(features, labels, tried, protocol, episodes=episodes, **options)
    best = max(results, key=lambda result: result.accuracy).method
    return {key: best.settings[key] for key in GRIDS[name]}
