"""Checks of arguments that several methods share."""

from collections.abc import Sequence

import torch
from torch import Tensor

from protoadapt.core.episodes import Episodes
from protoadapt.core.errors import UserError, whole_number


def transductive_only(episodes: Episodes, name: str) -> None:
    """For methods whose paper learns from the queries themselves."""
    if episodes.unlabeled_index is not None:
        raise UserError(
            f"{name} learns from the queries and has no semi-supervised form, but unlabelled rows are given: "
            f"use cipa or semi_protonet, or leave them out"
        )


MOST_STEPS = 100_000
"""More would not end, and compiled loops cannot be interrupted."""


def whole(name: str, value: int, least: int = 0) -> None:
    whole_number(name, value, least, MOST_STEPS)


def shares(class_prior: Sequence[float] | Tensor | None, n_way: int, like: Tensor) -> Tensor:
    """(W): class_prior with sum 1; equal shares where it is None."""
    prior = like.new_ones(n_way) if class_prior is None else torch.as_tensor(class_prior).to(like)
    if prior.shape != (n_way,) or not bool((prior > 0).all()):
        raise UserError(f"class_prior has to be {n_way} positive shares, not {prior.tolist()}")
    return prior / prior.sum()
