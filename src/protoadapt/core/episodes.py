"""Episodes (few-shot tasks over a table of features), and the samplers that draw them.

Axes: E episodes, W classes ("way"), K labelled rows per class ("shot"), S = Σ K support rows,
Q queries, U unlabelled rows, N rows of a feature table, D dimensions.
"""

import math
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from protoadapt.core.errors import UserError, whole_number
from protoadapt.core.protocol import Protocol

BLOCK = 256
"""Episodes drawn from one seed. Blocks, not chunks, are seeded, so that episode i does not depend on the chunk size."""
SHUFFLED = 2**22
"""Numbers that are shuffled at a time: 16 MB."""
ORDINARY = 1e-2, 1e4
"""Between which the largest feature of a table lies that methods take as it is: their constants are made for such."""


@dataclass(frozen=True)
class Episodes:
    """A batch of few-shot tasks over one table of rows.

    It holds no query labels, and queries are in random order, so no method can peek. Work per row (a power, a norm) is
    done once for the table by `each_row`, however many episodes use a row.

    Examples
    --------
    >>> episodes = Episodes.from_tensors(support, support_labels, query, n_way=5)
    >>> cipa(episodes)  # probabilities (E, Q, W)
    """

    rows: Tensor  # (N, D)
    support_index: Tensor  # (E, S) into rows
    support_labels: Tensor  # (E, S) in 0 … W-1
    query_index: Tensor  # (E, Q) into rows
    n_way: int
    unlabeled_index: Tensor | None = None  # (E, U) into rows
    base_mean: Tensor | None = None  # (D), mean of the base classes' features
    base_covariance: Tensor | None = None  # (D, D), `features.within_class_covariance` of the base classes
    memo: dict[Hashable, "tuple[Tensor, dict]"] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def from_tensors(
        cls,
        support: Tensor,
        support_labels: Tensor,
        query: Tensor,
        n_way: int,
        unlabeled: Tensor | None = None,
        **base: Any,
    ) -> "Episodes":
        """Episodes from rows: support (E, S, D) with labels (E, S) in 0 … n_way − 1, query (E, Q, D), and optionally
        unlabeled (E, U, D). `base` are the fields of that prefix.

        Integers become float32.
        """
        parts = [part for part in (support, query, unlabeled) if part is not None]
        shapes = [tuple(part.shape) for part in parts]
        alike = all(len(shape) == 3 and all(shape) and shape[::2] == shapes[0][::2] for shape in shapes)
        whole = not (support_labels.is_floating_point() or support_labels.is_complex())
        fits = alike and whole and support_labels.shape == support.shape[:2] and not any(x.is_complex() for x in parts)
        if not fits or support_labels.min() < 0 or support_labels.max() >= n_way:
            found = ", ".join(f"{tuple(part.shape)} of {part.dtype}" for part in (support_labels, *parts))
            raise UserError(
                f"support_labels, support, query and unlabeled are {found}: give real numbers in three axes (episode, "
                f"row, dimension), none of them empty, and one whole number from 0 to {n_way - 1} per support row"
            )
        rows = torch.cat([(part if part.is_floating_point() else part.float()).flatten(0, 1) for part in parts])
        places = torch.arange(len(rows), device=rows.device).split([shape[0] * shape[1] for shape in shapes])
        index = [place.view(shape[:2]) for place, shape in zip(places, shapes)]
        return cls(rows, index[0], support_labels.long(), index[1], n_way, *index[2:], **base)

    def __len__(self) -> int:
        return self.support_index.shape[0]

    def __getitem__(self, which: slice | list[int]) -> "Episodes":
        """Some of the episodes over the same table, with the work already done on it."""
        names = ("support_index", "support_labels", "query_index", "unlabeled_index")
        chosen = {name: part[which] for name in names if (part := getattr(self, name)) is not None}
        return replace(self, **chosen)

    @property
    def support(self) -> Tensor:
        """(E, S, D)"""
        return self.rows[self.support_index]

    @property
    def query(self) -> Tensor:
        """(E, Q, D)"""
        return self.rows[self.query_index]

    @property
    def unlabeled(self) -> Tensor | None:
        """(E, U, D)"""
        return None if self.unlabeled_index is None else self.rows[self.unlabeled_index]

    @property
    def shots(self) -> Tensor:
        """(E, W): labelled rows of each class."""
        return self.membership.sum(1)

    @property
    def membership(self) -> Tensor:
        """(E, S, W): one-hot support labels in the rows' dtype."""
        classes = torch.arange(self.n_way, device=self.rows.device)
        return (self.support_labels[..., None] == classes).to(self.rows.dtype)

    def each_row(self, function: Callable[..., Tensor], **arguments) -> "Episodes":
        """The same episodes with `function(rows, **arguments)` in place of the rows, computed once per table."""
        key = (function, *sorted(arguments.items()))
        if key not in self.memo:
            self.memo[key] = (function(self.rows, **arguments), {})
        rows, memo = self.memo[key]
        return replace(self, rows=rows, memo=memo)

    def ordinary(self) -> "Episodes":
        """The same episodes as methods compute with: in float32 at least, and with features of an ordinary size.

        A table outside of ORDINARY, and the base classes' mean with it, is multiplied by the power of 2 that brings its
        largest feature to 1 … 2. Their covariance is that of rows of unit length, whatever the features' size.
        """
        factor = self.each_row(_scaling).rows.item()
        dtype = torch.promote_types(self.rows.dtype, torch.float32)
        if factor == 1 and dtype == self.rows.dtype:
            return self
        mean = None if self.base_mean is None else _scaled(self.base_mean, factor, dtype)
        covariance = None if self.base_covariance is None else self.base_covariance.to(dtype)
        made = self.each_row(_scaled, factor=factor, dtype=dtype)
        return replace(made, base_mean=mean, base_covariance=covariance)

    def to(self, device: torch.device | str) -> "Episodes":
        """The same episodes with their tensors on a device."""
        moved: dict[str, Any] = {k: value.to(device) for k, value in vars(self).items() if isinstance(value, Tensor)}
        return replace(self, memo={}, **moved)


def _scaling(rows: Tensor) -> Tensor:
    """The power of 2, on the CPU, by which `Episodes.ordinary` multiplies a table."""
    largest = max(abs(float(end)) for end in rows.aminmax())
    fits = not 0 < largest < math.inf or ORDINARY[0] <= largest <= ORDINARY[1]
    return torch.tensor(1.0 if fits else 2.0 ** min(1 - math.frexp(largest)[1], 1000), dtype=torch.float64)


def _scaled(x: Tensor, factor: float, dtype: torch.dtype) -> Tensor:
    return (x.double() * factor).to(dtype)


@dataclass(frozen=True)
class Draw:
    """Row indices of drawn episodes, with the query labels that methods do not see."""

    support: np.ndarray  # (E, S)
    support_labels: np.ndarray  # (E, S)
    query: np.ndarray  # (E, Q)
    query_labels: np.ndarray  # (E, Q); −1 for queries of classes outside the episode
    unlabeled: np.ndarray  # (E, U); U is 0 but for "semi"

    def __getitem__(self, which: slice) -> "Draw":
        return Draw(*(part[which] for part in vars(self).values()))

    @property
    def rows(self) -> np.ndarray:
        """(E, ·): all rows of each episode."""
        return np.concatenate([self.support, self.query, self.unlabeled], 1)

    def episodes(self, rows: Tensor, n_way: int, **options) -> Episodes:
        """The episodes over a table of rows (N, D); `options` are further fields of `Episodes`."""
        parts = (self.support, self.support_labels, self.query, self.unlabeled)
        support, labels, query, unlabeled = (torch.from_numpy(part).to(rows.device) for part in parts)
        return Episodes(rows, support, labels, query, n_way, unlabeled if unlabeled.numel() else None, **options)


def draw(labels: np.ndarray, protocol: Protocol, seed: int, episodes: int, chunk: int = BLOCK) -> Iterator[Draw]:
    """Draws episodes, at most `chunk` at a time; episode i depends on the seed alone.

    Support, query and unlabelled rows of an episode never overlap, and queries are in random order. Rows whose label
    (N,) is −1 are never drawn.

    >>> next(draw(labels, Protocol(shot=5), seed=0, episodes=100)).support.shape
    (100, 25)
    """
    whole_number("seed", seed, 0, 2**32 - 1)  # numpy would take a longer one for a small seed with a later block
    known, spare = _pools(np.asarray(labels), protocol, seed)
    at_once = max(1, chunk // BLOCK) * BLOCK
    for first in range(0, episodes, at_once):
        last = min(first + at_once, episodes)
        numbers = range(first // BLOCK, -(-last // BLOCK))
        blocks = [_block(np.random.default_rng([seed, number]), protocol, known, spare) for number in numbers]
        joined = Draw(*map(np.concatenate, zip(*(vars(block).values() for block in blocks))))[: last - first]
        for start in range(0, last - first, chunk):
            yield joined[start : start + chunk]


@dataclass(frozen=True)
class _Pool:
    """Rows to draw from, class by class: those of class c are the `size[c]` rows from `start[c]` on."""

    rows: np.ndarray
    start: np.ndarray
    size: np.ndarray

    def pick(self, rng: np.random.Generator, classes: np.ndarray, k: int) -> np.ndarray:
        """(E, W, k): k rows of each class in `classes` (E, W), by the first k steps of a Fisher–Yates shuffle.

        Step j takes the number in a random place r ≥ j, and puts the number of place j there. Each class of each
        episode is a lane of one array, and all lanes make a step at once. Of a class with fewer than k rows the last
        picks are any rows; callers take no more than it has.
        """
        lane_class = classes.ravel()
        sizes = self.size[lane_class]
        width = int(self.size.max())
        uniform = rng.random((k, len(sizes)))
        step = np.arange(k)[:, None]
        target = np.clip(step + (uniform * (sizes - step)).astype(np.int64), 0, sizes - 1)
        picked = np.empty((len(sizes), k), np.int64)
        at_once = max(1, SHUFFLED // width)
        for start in range(0, len(sizes), at_once):
            lanes = slice(start, start + at_once)
            first = np.arange(len(picked[lanes])) * width
            numbers = np.tile(np.arange(width, dtype=np.int32), len(first))
            for j, place in enumerate(target[:, lanes] + first):
                picked[lanes, j] = numbers[place]
                numbers[place] = numbers[first + j]
        return self.rows.take(self.start[lane_class, None] + picked, mode="clip").reshape(*classes.shape, k)


def _pools(labels: np.ndarray, p: Protocol, seed: int) -> tuple[_Pool, _Pool]:
    """The rows for support and queries, and those for unlabelled rows. Raises UserError where there are too few."""
    classes, size = np.unique(labels[labels >= 0], return_counts=True)
    if p.classes > len(classes):
        raise UserError(
            f"an episode needs {p.classes} classes (way {p.way} + {p.others} others), the features have "
            f"{len(classes)}: lower --way{' or --distractors' * bool(p.distractors)}, or label more classes"
        )
    rows = np.argsort(labels, kind="stable")[(labels < 0).sum() :]
    start = size.cumsum() - size
    cut = size
    if p.kind == "semi":
        # The seed fixes this split once, before any episode, so that no row is support here and unlabelled there.
        rng = np.random.default_rng([seed, 0, 1])
        rows = np.concatenate([rng.permutation(own) for own in np.split(rows, start[1:])])
        cut = np.rint(p.labeled_fraction * size).astype(np.int64)
    known, spare = _Pool(rows, start, cut), _Pool(rows, start + cut, size - cut)
    # Dirichlet counts that do not fit are drawn again; those of pooled rows never exceed what there is.
    query = 1 if p.kind in ("dirichlet", "present", "few") else p.query
    needs = [
        (known, p.shot + query, "rows per class to label and to answer", "--shot or --query"),
        (known, p.foreign_rows, "rows of each foreign class", "--foreign or --query"),
        (spare, p.unlabeled, "unlabelled rows per class", "--unlabeled"),
    ]
    for pool, least, what, lower in needs:
        if pool.size.min() < least:
            raise UserError(
                f"an episode needs {least} {what}, and the smallest class has {pool.size.min()} for that: lower "
                f"{lower}, or leave small classes out"
            )
    if np.sort(cut - p.shot)[: p.candidates].sum() < p.queries:
        raise UserError(
            f"{p.queries} queries do not fit into the smallest {p.candidates} classes after {p.shot} support "
            f"rows each: lower --query"
        )
    return known, spare


def _block(rng: np.random.Generator, p: Protocol, known: _Pool, spare: _Pool) -> Draw:
    chosen = rng.random((BLOCK, len(known.size))).argsort(1)[:, : p.classes]
    targets = chosen[:, : p.way]
    counts = _query_counts(rng, p, known.size[targets] - p.shot)
    picked = known.pick(rng, targets, p.shot + counts.max())
    support, rest = picked[..., : p.shot], picked[..., p.shot :]
    taken = np.arange(rest.shape[2]) < counts[..., None]  # (E, W, ·): each class's first `counts` rows
    label = np.broadcast_to(np.arange(p.way)[:, None], rest.shape)
    query, query_labels = (part[taken].reshape(BLOCK, -1) for part in (rest, label))
    if p.kind == "open":  # as equal parts of the foreign classes as the number allows
        strange = known.pick(rng, chosen[:, p.way :], p.foreign_rows)
        strange = strange.swapaxes(1, 2).reshape(BLOCK, -1)[:, : p.foreign_queries]
        query = np.concatenate([query, strange], 1)
        query_labels = np.concatenate([query_labels, np.full_like(strange, -1)], 1)
    order = rng.random(query.shape).argsort(1)
    return Draw(
        support.reshape(BLOCK, -1),
        np.tile(np.repeat(np.arange(p.way), p.shot), (BLOCK, 1)),
        np.take_along_axis(query, order, 1),
        np.take_along_axis(query_labels, order, 1),
        spare.pick(rng, chosen, p.unlabeled).reshape(BLOCK, -1) if p.kind == "semi" else np.empty((BLOCK, 0), int),
    )


def _query_counts(rng: np.random.Generator, p: Protocol, free: np.ndarray) -> np.ndarray:
    """(E, W): how many queries each class has, where `free` (E, W) rows are left of it."""
    if p.kind == "dirichlet":
        return _dirichlet_counts(rng, p.queries, p.alpha, free)
    counts = np.zeros_like(free)
    if p.kind not in ("present", "one-class", "few"):
        return counts + p.query
    # The classes that are present have random places, and their rows are drawn from one pool.
    places = rng.random(free.shape).argsort(1)[:, : p.candidates]
    pools = np.take_along_axis(free, places, 1)
    np.put_along_axis(counts, places, [rng.multivariate_hypergeometric(pool, p.queries) for pool in pools], 1)
    return counts


def _dirichlet_counts(rng, total: int, alpha: float, free: np.ndarray) -> np.ndarray:
    """(E, W) class sizes round(total·Dir(alpha)) that sum to total, drawn again where a class has too few rows.

    Largest remainders are rounded up, which keeps the sum.
    """
    counts = np.zeros_like(free)
    missing = np.ones(len(free), dtype=bool)
    for _ in range(10_000):
        shares = total * rng.dirichlet(np.full(free.shape[1], alpha), size=missing.sum())
        floor = np.floor(shares)
        rank = (floor - shares).argsort(1, kind="stable").argsort(1, kind="stable")
        counts[missing] = floor + (rank < (total - floor.sum(1, keepdims=True)))
        missing = np.any(counts > free, axis=1)
        if not missing.any():
            return counts
    raise UserError(f"{total} Dirichlet({alpha}) queries do not fit the classes' rows: lower --query or raise --alpha")
