"""Thousands of episodes → accuracies with confidence, and paired differences between methods.

Two questions, two intervals. `ci95`: had we drawn other episodes of the same classes? More episodes make it as small as
one likes. `ci95_classes`: had the novel classes been others? Only more classes make that one smaller.
"""

import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from protoadapt.core.episodes import MOST_EPISODES, Draw, Episodes, Protocol, draw
from protoadapt.core.errors import UserError, whole_number
from protoadapt.core.methods import Method, method
from protoadapt.core.records import Result

LARGEST = {4: 1e15, 8: 1e150}
"""Of a feature, by the bytes that it is computed in: the squares of larger ones may sum to infinity."""


def evaluate(
    features: Tensor | np.ndarray,
    labels: Tensor | np.ndarray,
    spec: str | Callable[..., Tensor] | Method = "cipa",
    protocol: Protocol | None = None,
    **options: Any,
) -> Result:
    """The accuracy of one method; options as in `compare`."""
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
    device: torch.device | str = "cpu",
    chunk: int | None = None,
    on_progress: Callable[[int], None] = lambda done: None,
) -> list[Result]:
    """Every method on the same episodes.

    features (N, D), labels (N) with −1 for rows that are never drawn, base_mean (D) for methods that centre by the
    base classes. Memory is bounded by `chunk` episodes; the answers do not depend on it. `on_progress` is told the
    number of episodes done by all methods.
    """
    protocol = protocol or Protocol()
    methods = [method(spec) for spec in specs]
    rows, wanted = checked(features, labels)
    whole_number("episodes", episodes, 1, MOST_EPISODES)
    if chunk is not None:
        whole_number("chunk", chunk, 1)
    rows = rows.to(usable(device))
    mean = None if base_mean is None else _tensor(base_mean, "base_mean").to(rows)
    if mean is not None and (mean.shape != rows.shape[1:] or not torch.isfinite(mean).all()):
        raise UserError(
            f"base_mean has shape {tuple(mean.shape)}, the features have {rows.shape[1]} dimensions: it has to be one "
            f"finite number a dimension, so make it again from the base classes' features"
        )
    chunk = chunk or (512 if rows.device.type == "cpu" else 2560)
    correct = np.zeros((len(methods), episodes), dtype=np.int64)
    seconds = np.zeros(len(methods))
    known, code = np.unique(wanted, return_inverse=True)
    class_episodes = np.zeros(len(known), np.int64)
    class_correct = np.zeros((len(methods), len(known)), np.int64)
    memo: dict = {}
    done, queries = 0, 0
    with torch.no_grad():
        first = next(draw(wanted, protocol, seed, 1)).episodes(rows, protocol.way, mean)
        for run in methods:  # one episode before the clock starts: inner loops are compiled, and mistakes show at once
            _answers(run, first)
        start = time.perf_counter()
        for drawn in _chunks(draw(wanted, protocol, seed, episodes), chunk):
            batch = drawn.episodes(rows, protocol.way, mean, memo=memo)
            seconds += time.perf_counter() - start
            upto = done + len(batch)
            for m, run in enumerate(methods):
                start = time.perf_counter()
                answer = _answers(run, batch)
                correct[m, done:upto] = (answer == drawn.query_labels).sum(1)
                seconds[m] += time.perf_counter() - start
            members = np.zeros((len(batch), len(known)), bool)
            for rows_of in (drawn.support, drawn.unlabeled):  # among the unlabelled, classes that are only in the way
                if rows_of is not None:
                    np.put_along_axis(members, code[rows_of], True, 1)
            class_episodes += members.sum(0)
            class_correct += correct[:, done:upto] @ members
            done, queries = upto, drawn.query_labels.shape[1]
            on_progress(done)
            start = time.perf_counter()
    drawn_from = known >= 0  # −1 are rows that are never drawn
    counts, device = (class_episodes[drawn_from], class_correct[:, drawn_from]), str(rows.device)
    return [
        Result(run, protocol, seed, correct[m], queries, float(seconds[m]), device, counts[0], counts[1][m])
        for m, run in enumerate(methods)
    ]


def checked(features: Tensor | np.ndarray, labels: Tensor | np.ndarray) -> tuple[Tensor, np.ndarray]:
    """Features as float rows (float64 stays, all else becomes float32) and integer labels, or an error."""
    rows = _tensor(features, "features")
    if isinstance(labels, Tensor):
        labels = (labels.detach().float() if labels.is_floating_point() else labels).cpu()
    wanted = _array(labels, "labels")
    if rows.ndim != 2 or not rows.shape[1] or rows.is_complex():
        raise UserError(
            f"features have shape {tuple(rows.shape)} and type {rows.dtype}: one row of real numbers a picture is due"
        )
    if wanted.shape != (len(rows),):
        raise UserError(f"there are {len(rows)} feature rows and labels of shape {wanted.shape}: give one label a row")
    if not np.issubdtype(wanted.dtype, np.integer) or (len(wanted) and wanted.max() > np.iinfo(np.int64).max):
        raise UserError(f"labels are of type {wanted.dtype}: they must be whole numbers (−1 for none) that fit int64")
    rows = rows if rows.dtype == torch.float64 else rows.float()
    bad = (~torch.isfinite(rows)).any(1).nonzero()
    if len(bad):
        raise UserError(
            f"{len(bad)} feature rows hold NaN or infinite values, the first is row {int(bad[0])}: "
            f"leave them out or extract them again"
        )
    check_size(rows, rows.dtype.itemsize)
    return rows, wanted.astype(np.int64)


def _tensor(values: Any, name: str) -> Tensor:
    if isinstance(values, Tensor):
        return values.detach()
    try:
        return torch.from_numpy(np.ascontiguousarray(_array(values, name)))  # whatever its strides
    except (TypeError, ValueError) as error:
        raise _no_array(name, error) from error


def _array(values: Any, name: str) -> np.ndarray:
    """Of lists, data frames and series too."""
    refuse_mask(values, name)
    try:
        return np.asarray(values.to_numpy() if hasattr(values, "to_numpy") else values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise _no_array(name, error) from error


def _no_array(name: str, error: Exception) -> UserError:
    return UserError(f"{name} cannot be read as an array of numbers ({error}): give one of numpy or torch")


def refuse_mask(values: Any, name: str) -> None:
    """Raises UserError: nothing here would look at the mask."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise UserError(f"{name} are partly masked: leave those rows out, or fill them in with .filled(…)")


def usable(device: torch.device | str) -> torch.device | str:
    """The device, if something can be computed there."""
    try:
        kind = torch.device(device).type
    except (RuntimeError, TypeError, ValueError) as error:
        raise UserError(f"device is {device!r}, which torch does not know: set device='cpu' or 'cuda'") from error
    if kind not in ("cpu", "cuda", "mps", "xpu"):
        raise UserError(f"device is {device!r}, where nothing is computed: set device='cpu' or 'cuda'")
    if kind == "cuda" and not torch.cuda.is_available():
        raise UserError(f"device is {device!r} but torch finds no GPU here: set device='cpu'")
    return device


def check_size(rows: Tensor | np.ndarray, itemsize: int) -> None:
    """No feature is too large to compute with in numbers of so many bytes."""
    largest = max(float(rows.max()), -float(rows.min())) if len(rows) else 0.0
    if largest > LARGEST[itemsize]:
        raise UserError(
            f"the features reach {largest:.3g}, and from {LARGEST[itemsize]:g} their squares may be infinite: scale "
            f"them down"
        )


def _answers(run: Method, batch: Episodes) -> np.ndarray:
    """(E, Q): the class of the largest probability. In numpy, since torch would wake its threads for so little, and
    they stay awake beside the compiled loops."""
    try:
        answer = run(batch)
    except Exception as error:
        if isinstance(error, UserError) or run.function.__module__.startswith("protoadapt."):
            raise
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(last.filename).name}, line {last.lineno}"
        raise UserError(f"method {run.label} failed with {type(error).__name__}: {error} ({where})") from error
    shape = (*batch.query_index.shape, batch.n_way)
    if not isinstance(answer, Tensor) or tuple(answer.shape) != shape:
        got = tuple(answer.shape) if isinstance(answer, Tensor) else type(answer).__name__
        raise UserError(f"method {run.label} returned {got} where (episodes, queries, way) = {shape} was asked for")
    if answer.is_complex():
        raise UserError(f"method {run.label} returned complex numbers where probabilities were asked for")
    probabilities = answer.detach().to("cpu", torch.float64 if answer.dtype == torch.float64 else torch.float32).numpy()
    if not np.isfinite(probabilities).all():
        raise UserError(f"method {run.label} returned NaN or infinite probabilities: check its arguments")
    return probabilities.argmax(-1)


def _chunks(blocks: Iterable[Draw], size: int) -> Iterator[Draw]:
    """Blocks of episodes joined and cut to chunks of `size`."""
    held: Draw | None = None
    for block in blocks:
        held = block if held is None else _joined(held, block)
        while len(held.support) >= size:
            yield held[:size]
            held = held[size:]
    if held is not None and len(held.support):
        yield held


def _joined(a: Draw, b: Draw) -> Draw:
    pairs = zip(vars(a).values(), vars(b).values())
    return Draw(*(None if x is None else np.concatenate([x, y]) for x, y in pairs))  # type: ignore[arg-type]
