"""What several methods share. Axes as in `episodes`: E, W, S, Q, D."""

from collections.abc import Sequence

import torch
from torch import Tensor

from protoadapt.core.episodes import Episodes
from protoadapt.core.errors import UserError
from protoadapt.core.prototype_model import TINY as TINY
from protoadapt.core.prototype_model import unit as unit

SINKHORN_ROUNDS = 1000
SINKHORN_STOP = 1e-6
"""Sinkhorn's iteration ends when no row sum moved by more than this in a round."""


def class_means(rows: Tensor, membership: Tensor) -> Tensor:
    """(E, W, D): mean of each class's rows (E, S, D), weighted by membership (E, S, W)."""
    return membership.transpose(1, 2) @ rows / membership.sum(1)[..., None].clamp_min(TINY)


def sq_distances(x: Tensor, y: Tensor) -> Tensor:
    """(E, X, Y) squared Euclidean distances between x (E, X, D) and y (E, Y, D), never negative."""
    cross = x @ y.transpose(1, 2)
    return (x.square().sum(-1)[:, :, None] - 2 * cross + y.square().sum(-1)[:, None, :]).clamp_min(0)


def transductive_only(episodes: Episodes, name: str) -> None:
    """Refuses unlabelled rows, for methods whose paper learns from the queries themselves."""
    if episodes.unlabeled_index is not None:
        raise UserError(
            f"{name} learns from the queries and has no semi-supervised form, but the episodes have unlabelled rows: "
            f"use cipa, bapa or semi_protonet, or leave the unlabelled rows out"
        )


def shares(class_prior: Sequence[float] | Tensor | str | None, n_way: int, like: Tensor) -> Tensor:
    """(W): class_prior scaled to sum 1; equal shares where it is None or "equal"."""
    equal = class_prior is None or isinstance(class_prior, str)
    prior = like.new_ones(n_way) if equal else torch.as_tensor(class_prior).to(like)
    if prior.shape != (n_way,) or not bool((prior > 0).all()):
        raise UserError(f"class_prior is {prior.tolist()}: it must be {n_way} positive shares, one per class")
    return prior / prior.sum()


def transport_plan(kernel: Tensor, size: Tensor) -> Tensor:
    """(E, W, U): a non-negative kernel scaled until the classes of each row sum to 1 and the rows of each class to its
    size (…, W, 1): Sinkhorn's iteration (Cuturi, 2013). A row that is zero stays zero.

    A round scales rows, then columns: plan = left · kernel · right, and only the scalings change. Each episode stops by
    itself, when no row sum moved by more than SINKHORN_STOP: its answer never depends on its neighbours.
    """
    left, right = torch.ones_like(kernel[:, :1]), torch.ones_like(kernel[:, :, :1])  # (E, 1, U), (E, W, 1)
    row_sums, running = torch.zeros_like(left), torch.ones_like(left[..., :1], dtype=torch.bool)
    for step in range(SINKHORN_ROUNDS):
        fill = right.mT @ kernel
        now = left * fill
        running = running & ((now - row_sums).abs().amax(-1, keepdim=True) > SINKHORN_STOP)
        if step % 8 == 0 and not running.any():  # asking waits for the device; what has stopped stays as it is
            break
        row_sums = now
        left = torch.where(running, 1 / fill.clamp_min(TINY), left)
        right = torch.where(running, size / (kernel @ left.mT).clamp_min(TINY), right)
    return left * kernel * right
