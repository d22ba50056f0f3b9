"""The prototype family for one task with any number of rows: what is learned from labelled rows and a row source.

This is the loop of `adaptation` and of `bapa`, written with sums over blocks of rows (`row_source`). Memory is bounded
by a block; sums are kept in float64 whatever the rows' type. The result answers any row, fitted or new.

Sinkhorn's transport plan (N × W) is never held. It is the exponential of the logits scaled by rows and by columns, so
one number b_c per class describes it (`transport`): with rows scaled to sum 1 the plan is softmax_c(logits + b_c). That
makes PT+MAP inductive: a new row is answered with the b of the fitted rows, and a fitted row gets its row of the plan.

Axes: W classes, S labelled rows, D dimensions, N unlabelled rows in all, n rows of a block.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from protoadapt.core.methods.adaptation import Adaptation
from protoadapt.core.methods.bapa_equations import (
    TOLD_ROUNDS,
    class_doubt,
    class_sizes,
    first_settled,
    label_pulls,
    likeness,
    matched,
    pulls,
    shared,
    step_size,
    steps_of_rows,
    takes_part,
    told,
    trust,
)
from protoadapt.core.methods.common import SINKHORN_ROUNDS, SINKHORN_STOP, TINY, shares
from protoadapt.core.methods.normalize import prepared_rows
from protoadapt.core.methods.row_source import DenseBlock, RowBlock, Source, Sums
from protoadapt.core.prototype_model import PrototypeModel as PrototypeModel
from protoadapt.core.prototype_model import two_best as two_best


@dataclass(frozen=True)
class Support:
    """The labelled rows, block by block after the power transform, and their labels (S) in 0 … W−1."""

    blocks: Iterable[DenseBlock]
    labels: Tensor
    n_way: int

    def class_sums(self, function: Callable[[Tensor], Tensor] = lambda rows: rows) -> Tensor:
        """(W, ·) in float64: Σ function(row) over each class's rows."""
        sums, start = None, 0
        for block in self.blocks:
            values = function(block.rows).double()
            sums = values.new_zeros(self.n_way, values.shape[1]) if sums is None else sums
            sums.index_add_(0, self.labels[start : start + len(values)], values)
            start += len(values)
        assert sums is not None  # every class has a labelled row
        return sums

    def pull(self, function: Callable[[Tensor, DenseBlock], Tensor]) -> Tensor:
        """Σ over the blocks of function(y (W, n), block), in float64."""
        total, start = None, 0
        for block in self.blocks:
            labels = self.labels[start : start + len(block.rows)]
            part = function(torch.nn.functional.one_hot(labels, self.n_way).mT, block).double()
            total, start = part if total is None else total + part, start + len(labels)
        assert total is not None
        return total

    def prepared_sums(self, center: Tensor, l2: bool) -> Tensor:
        """(W, D): the class sums of the rows about a centre."""
        return self.class_sums(lambda rows: prepared_rows(rows, center.to(rows), l2))

    @property
    def shots(self) -> Tensor:
        """(W, 1): the number of labelled rows per class."""
        return torch.bincount(self.labels, minlength=self.n_way).double()[:, None]


def prototype_steps(support: Support, source: Source, how: Adaptation) -> Iterator[PrototypeModel]:
    """The n_iter + 1 models of `adaptation`'s loop; the last one is the answer.

    Rows that are answered are centred like the unlabelled rows, or like the support where there are none.
    """
    sums, shots = support.class_sums(), support.shots
    zero, no_mass = torch.zeros_like(sums), torch.zeros_like(shots)
    total, _, n_rows = totals(source, zero[0])
    support_mean, center = _centers(sums.sum(0), int(shots.sum()), total, n_rows, how.center)
    sums = support.prepared_sums(support_mean, how.l2)
    rows = source.each(lambda block: block.about(center, how.l2))
    rule = "cosine" if how.rule == "cosine" else "euclid"
    model = PrototypeModel(center, sums / shots, zero[:, 0], rule, how.scale, how.l2)

    def part(block: RowBlock) -> Sums:
        z = model.scores(block).softmax(0)
        return block.pull(z), z.sum(1, keepdim=True)

    for step in range(how.n_iter + 1):
        bias, weight = transport(rows, model, how, n_rows)
        yield replace(model, bias=bias + weight[:, 0].log())
        if step < how.n_iter:
            model = replace(model, bias=bias)
            pull, mass = rows.sums(part, (zero, no_mass))
            estimate = (sums + weight * pull) / (shots + weight * mass)
            moved = how.sigma * estimate + (1 - how.sigma) * model.prototypes
            model = replace(model, prototypes=moved, bias=zero[:, 0])


CORRECTED = 0.25
"""What a corrected row counts where labelled rows describe its class: until others take part, and for familiarity. At 0
a class that few examples describe learns less from corrections; at 1 some tasks end worse than they began
(`benchmarks/corrections.py`)."""


def bapa_steps(
    support: Support, source: Source, how: Adaptation, kappa: float, k_s: float, corrected: Support | None = None
) -> Iterator[PrototypeModel]:
    """The n_iter + 1 models of BAPA's loop, steps numbered as in `bapa`; the last one is the answer.

    corrected: rows whose class is known but which do not represent it, as people corrected the classifier there: rows
    at the borders of classes. They stay among the unlabelled rows, which would be another sample without them, with
    their class in place of z. The start is made of the support; in it, and as long as labelled rows are alone, they
    count CORRECTED.

    Where labelled rows are little alike (6), a pass over the unlabelled ones finds how unequal the classes are at the
    start, and the steps of labelled rows alone need none.

    A row's weight in the centre depends on the row only through z / Σ_c z, so Σ_q w_q q is a sum over the classes
    of weight_c times Σ_q of that times q. Where class sizes do not differ (g = 0) all rows have the same weight and the
    centre stays: those products are formed from the first step on that needs them, which is then computed again.
    Without unlabelled rows nothing moves.
    """
    sums, shots = support.class_sums(), support.shots
    zero, no_mass = torch.zeros_like(sums), torch.zeros_like(shots)
    total, squares, n_rows = totals(source, zero[0])
    known, known_sums = no_mass, zero
    if corrected is not None:
        known, known_sums = corrected.shots, corrected.class_sums()
        total, n_rows = total + known_sums.sum(0), n_rows + round(float(known.sum()))
        squares = squares + corrected.class_sums(lambda rows: rows.square().sum(1, keepdim=True)).sum()

    def known_pull(center: Tensor) -> Tensor:
        return zero if corrected is None else corrected.prepared_sums(center, how.l2)

    prior = told(how.class_prior, len(shots), shots)
    doubt, sigma = class_doubt(shots), step_size(how.sigma, prior)
    of_none = doubt if prior is None else 0.0  # r in 2
    support_mean = (sums / shots).mean(0)
    center, alpha = support_mean, 0.0 * squares
    if n_rows:
        support_squares = (support.class_sums(lambda rows: rows.square().sum(1, keepdim=True)) / shots).mean()
        spread = (squares / n_rows + support_squares) / 2 - total / n_rows @ support_mean
        apart2 = (total / n_rows - support_mean).square().sum()
        alpha = trust(apart2, spread.view(1, 1), shots, n_rows, k_s)[0, 0]  # 0
        center = alpha * total / n_rows + (1 - alpha) * support_mean  # 1
    labelled = support.prepared_sums(center, how.l2)
    alike = likeness(labelled.square().sum(), labelled.sum(0).square().sum(), shots)
    prototypes = (labelled + CORRECTED * known_pull(center)) / (shots + CORRECTED * known + kappa * doubt)
    model = PrototypeModel(center, prototypes, zero[:, 0], "euclid", how.scale, how.l2)

    def sizes(block: RowBlock) -> Sums:
        return (shared(model.logits(block), 0, of_none).sum(1, keepdim=True),)

    def match_sizes() -> None:
        """2′: a pass over the rows for each round."""
        nonlocal model
        for _ in range(TOLD_ROUNDS if n_rows and prior is not None else 0):
            (n,) = source.sums(sizes, (no_mass,))
            model = replace(model, bias=matched(n + known, n_rows, model.bias[:, None], prior)[:, 0])

    match_sizes()
    yield model
    n = no_mass
    if n_rows and how.n_iter and prior is None and bool(alike < 1):
        n = source.sums(sizes, (no_mass,))[0] + known
    T = steps_of_rows(alike, n, how.n_iter, prior is not None)  # 6

    def of_block(block: RowBlock) -> Sums:
        u = block.about(model.center, how.l2)
        z = shared(model.scores(u), 0, of_none)  # 2
        h = pulls(z, 0)
        parts = z.sum(1, keepdim=True), h.sum(1, keepdim=True), u.pull(h)
        if not uneven:
            return parts
        even = z / z.sum(0, keepdim=True)
        return *parts, even.sum(1, keepdim=True), block.pull(even)

    def labels_pull(y: Tensor, block: DenseBlock) -> Tensor:
        u = block.about(model.center, how.l2)
        even = replace(model, bias=torch.zeros_like(model.bias))  # 3: the support has no part in the class sizes
        return u.pull(label_pulls(y.to(u.rows), even.scores(u), 1.0, prior))

    step, uneven = 0, False
    while n_rows and step < how.n_iter:
        size_term, mass, pull, followed = model.bias[:, None], no_mass, zero, [no_mass, zero]
        part = takes_part(step, T, how.n_iter)
        if part > 0:
            zeros = (no_mass, no_mass, zero, no_mass, zero)
            n, mass, pull, *followed = source.sums(of_block, zeros if uneven else zeros[:3])
            n, settled = n + known, step >= first_settled(how.n_iter)
            size_term, weight = class_sizes(n, size_term, doubt, prior, settled, part=part)  # 4, 5
            if not uneven and bool((weight != 1).any()):
                uneven = True
                continue
        sure = CORRECTED + part * (1 - CORRECTED)  # of corrected rows
        pull, mass = part * pull + sure * known_pull(model.center), part * mass + sure * known
        estimate = (support.pull(labels_pull) + pull) / (shots + kappa * doubt + mass)
        prototypes = sigma * estimate + (1 - sigma) * model.prototypes  # 3
        if uneven:
            rows, of_class = followed
            mean = (weight * (of_class + known_sums)).sum(0) / (weight * (rows + known)).sum()
            center = alpha * mean + (1 - alpha) * support_mean  # 1
        model = replace(model, center=center, prototypes=prototypes, bias=size_term[:, 0])
        step += 1
        match_sizes()
        yield model


def transport(rows: Source, model: PrototypeModel, how: Adaptation, n_rows: int) -> tuple[Tensor, Tensor]:
    """Class biases b (W) and weights w (W, 1) of the assignment z = w·softmax(logits + b): 0 and 1 but for Sinkhorn.

    A round of Sinkhorn is a softmax, which scales the rows to sum 1, and weights w_c = size_c / Σ_j softmax_jc, which
    scale the columns and go into b for the next round. As in `common.transport_plan` it ends when no row sum moved by
    more than SINKHORN_STOP. Nothing is kept per row: with z = softmax(logits + b) and b′, b″ the biases one and two
    rounds ago, Σ_c z_c exp(b′_c − b_c) and Σ_c z_c exp(b″_c − b_c) are the inverse products of the last row sums.
    Float64 throughout: rounding in float32 alone moves the sums by more than the stop test allows.
    """
    bias, weight = model.bias, torch.ones_like(model.prototypes[:, :1])
    if how.rule != "sinkhorn":
        return bias, weight
    size = n_rows * shares(how.class_prior, len(bias), bias)
    scores = rows.each(lambda block: model.scores(block).double())
    last: list[Tensor] = []  # the biases of the rounds before

    def part(score: Tensor) -> Sums:
        z = (score + now[:, None]).softmax(0)
        if len(last) < 2:
            return z.sum(1), torch.ones_like(now[0])
        one, two = torch.stack([(before - now).exp() for before in last]) @ z
        moved = (1 / one - one / two).abs() > SINKHORN_STOP
        return z.sum(1), moved.sum()

    for _ in range(SINKHORN_ROUNDS if n_rows else 0):
        now = bias + weight[:, 0].log()
        found, moved = scores.sums(part, (torch.zeros_like(bias), torch.zeros_like(bias[0])))
        if not moved:
            break
        last = [now, *last[:1]]
        bias, weight = now, (size / found.clamp_min(TINY))[:, None]
    return bias, weight


def totals(source: Source, zero: Tensor) -> tuple[Tensor, Tensor, int]:
    """Σ x (D), Σ ‖x‖² and the number of rows."""

    def part(block: RowBlock) -> Sums:
        squares = block.squares()
        return block.total(), squares.sum(dtype=zero.dtype), torch.ones_like(squares).sum(dtype=zero.dtype)

    total, squares, n_rows = source.sums(part, (zero, zero[0], zero[0]))
    return total, squares, round(float(n_rows))


def _centers(support: Tensor, n: int, unlabeled: Tensor, m: int, center: str) -> tuple[Tensor, Tensor]:
    """What is taken off the support and off other rows, each (D), from the sums of both and their sizes."""
    if center == "none":
        return torch.zeros_like(support), torch.zeros_like(support)
    if center == "joint":
        return (support + unlabeled) / (n + m), (support + unlabeled) / (n + m)
    return support / n, unlabeled / m if m and center == "separate" else support / n
