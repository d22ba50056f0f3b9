"""What several methods share. Axes as in `episodes`: E, W, S, Q, D."""

from collections.abc import Sequence

import torch
from torch import Tensor

from protoadapt.core.episodes import Episodes
from protoadapt.core.errors import UserError

TINY = 1e-12
SINKHORN_ROUNDS = 1000
SINKHORN_STOP = 1e-6
"""Sinkhorn's iteration ends when no row sum moved by more than this in a round."""


def unit(x: Tensor) -> Tensor:
    """x/‖x‖ along the last axis, whatever the scale of x; a zero row stays zero."""
    length = x.norm(dim=-1, keepdim=True)
    # The squares of tiny entries may be zero: scale them up first. An exported graph cannot branch on values.
    if not torch.compiler.is_exporting() and bool((length < TINY).any()):
        largest = x.abs().amax(-1, keepdim=True).clamp_min(torch.finfo(x.dtype).tiny)
        x = torch.where(length < TINY, x / largest, x)
        length = x.norm(dim=-1, keepdim=True)
    return x / length.clamp_min(TINY)


def class_means(rows: Tensor, membership: Tensor) -> Tensor:
    """(E, W, D): mean of each class's rows (E, S, D), weighted by membership (E, S, W)."""
    return membership.transpose(1, 2) @ rows / membership.sum(1)[..., None].clamp_min(TINY)


def sq_distances(x: Tensor, y: Tensor) -> Tensor:
    """(E, X, Y) squared Euclidean distances between x (E, X, D) and y (E, Y, D), never negative."""
    cross = x @ y.transpose(1, 2)
    return (x.square().sum(-1)[:, :, None] - 2 * cross + y.square().sum(-1)[:, None, :]).clamp_min(0)


def center_and_unit(rows: Tensor, mean: Tensor) -> Tensor:
    """unit(rows − mean)."""
    return unit(rows - mean)


def cl2n(episodes: Episodes, name: str) -> Episodes:
    """Rows centred by the mean of the BASE features, then of unit length (SimpleShot's CL2N)."""
    if episodes.base_mean is None:
        raise UserError(
            f"{name} centres by the mean of the base classes' features, which is missing: give it with --base FILE "
            f"(for your own pictures, features of other pictures by the same network; in Python base_mean), "
            f"or leave {name} out"
        )
    return episodes.each_row(center_and_unit, mean=episodes.base_mean)


def transductive_only(episodes: Episodes, name: str) -> None:
    """Refuses unlabelled rows, for methods whose paper learns from the queries themselves."""
    if episodes.unlabeled_index is not None:
        raise UserError(
            f"{name} learns from the queries and has no semi-supervised form, but the episodes have unlabelled rows: "
            f"use cipa, bapa or semi_protonet, or leave the unlabelled rows out"
        )


def shares(class_prior: Sequence[float] | Tensor | None, n_way: int, like: Tensor) -> Tensor:
    """(W): class_prior scaled to sum 1; equal shares where it is None."""
    prior = like.new_ones(n_way) if class_prior is None else torch.as_tensor(class_prior).to(like)
    if prior.shape != (n_way,) or not bool((prior > 0).all()):
        raise UserError(f"class_prior is {prior.tolist()}: it must be {n_way} positive shares, one per class")
    return prior / prior.sum()
