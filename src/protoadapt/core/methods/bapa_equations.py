"""The equations of `bapa` that all its forms share, with the numbers that they have there.

Axes: … E episodes or none, W = C classes, S support rows, U = N unlabelled rows.
"""

from collections.abc import Sequence
from math import ceil
from typing import NamedTuple

import torch
from torch import Tensor

from protoadapt.core.methods.common import TINY, shares

STRICTNESS = 3
"""The power in 0: how fast α falls where the two means differ by more than chance."""
CHANCE = 0.018, 0.3
"""θ² = CHANCE[0]/√r + CHANCE[1]/n̄: the spread of estimated sizes that equal classes show; from validation classes."""
RECALL = 1.0, 4.0
"""ρ, where the sizes are estimated and where they are told: how hard labelled rows draw their classes back."""
SMOOTHING = 0.2
"""ε with one labelled row per class: what is added to every class's estimated size, as a share of the mean size."""
SETTLED = 0.55
"""The share of the steps after which sizes may be taken to be equal."""
TAKING_PART = 40.0, 0.1, 5.0
"""The three numbers of 6; from validation classes."""
TOLD_ROUNDS = 2
"""Rounds of 2′ in each step."""
TOLD_STEP = 1.4
"""How much further steps go where sizes are told: nothing has to settle before it is believed."""
LEAST = 1e-6
"""The least that all classes together have of a row, so that it has a likeliest class also where it is of none."""
ALONE = 1e-6
"""How little above 1 the mean K̄ of labelled rows per class counts as 1."""


class BapaSettings(NamedTuple):
    """What all forms of the loop take beside powered episodes; `bapa` declares the defaults and checks the values."""

    n_iter: int
    sigma: float  # σ
    lam: float  # λ
    kappa: float  # κ
    k_s: float
    prior: Tensor | None = None  # (W, 1): the shares π that were told
    base_rows: float = 0.0  # above 0, the rows' origin is the base classes' mean (`from_base`)
    chance: tuple[float, float] = CHANCE
    whitened: bool = False


def support_noise(shots: Tensor) -> Tensor:
    """1/M (…, 1, 1); shots (…, W, 1)."""
    known = (shots > 0).to(shots)
    return (known / shots.clamp_min(1)).sum(-2, keepdim=True) / known.sum(-2, keepdim=True).square()


def rows_of_base(far2: Tensor, spread: Tensor, shots: Tensor, most: float) -> Tensor:
    """k_b (…, 1, 1) from ‖m_S − b‖² and V: as many rows as would miss the centre by as much as b does."""
    return (spread / (far2 - spread * support_noise(shots)).clamp_min(TINY)).clamp(0, most)


def beside_base(shots: Tensor, k_b: Tensor | float) -> Tensor:
    """M/(M + k_b) (…, 1, 1): the share of the labelled rows' mean beside the base classes' mean, the origin."""
    return 1 / (1 + k_b * support_noise(shots))


def trust(apart2: Tensor, spread: Tensor, shots: Tensor, n_rows: int, k_s: float, k_b: Tensor | float = 0.0) -> Tensor:
    """Step 0: α (…, 1, 1) from ‖q̄ − m_S‖² and V; shots (…, W, 1)."""
    noise = support_noise(shots) * beside_base(shots, k_b)  # 1/(M + k_b)
    alike = (spread * (noise + 1 / n_rows) / apart2.clamp_min(TINY)).clamp(0, 1)
    return n_rows / (n_rows + k_s) * alike**STRICTNESS


def class_doubt(shots: Tensor) -> Tensor:
    """r (…, 1, 1): the mean of 1/√K_c over the classes that have labelled rows; shots (…, W, 1)."""
    known = (shots > 0).to(shots)
    return (known / shots.clamp_min(1).sqrt()).sum(-2, keepdim=True) / known.sum(-2, keepdim=True)


def held_by(shots: Tensor, kappa: float) -> Tensor:
    """K_c + k (…, W, 1), above 0: the rows and pseudo-rows that hold each prototype; shots (…, W, 1)."""
    return (shots + kappa * class_doubt(shots)).clamp_min(TINY)


def shared(logits: Tensor, classes: int, doubt: Tensor | float) -> Tensor:
    """z_c = exp l_c / (r + Σ exp l) of 2, along the axis `classes`; `doubt` is r, 0 where every row is of a class."""
    z = logits.softmax(classes)
    if isinstance(doubt, float):
        return z
    return z * (logits.logsumexp(classes, keepdim=True) - doubt.to(z).log()).sigmoid().clamp_min(LEAST)


def pulls(z: Tensor, classes: int) -> Tensor:
    """What a row weighs in each class's prototype (3); `classes` is their axis."""
    return z.square() / z.amax(classes, keepdim=True)


def likeness(own: Tensor, whole: Tensor, shots: Tensor) -> Tensor:
    """40 J²/(K̄ − 1) of 6 (…, 1, 1), from Σ_c ‖S_c‖² (…), ‖Σ_c S_c‖² (…) and shots (…, W, 1); ∞ where K̄ is 1."""
    slope, error, _ = TAKING_PART
    own, whole = own[..., None, None], whole[..., None, None]
    rows = shots.sum(-2, keepdim=True)
    same = shots.square().sum(-2, keepdim=True)  # ordered pairs of one class, each row with itself among them
    within = (own - rows) / (same - rows).clamp_min(1)
    between = (whole - own) / (rows.square() - same).clamp_min(1)
    J = (within - between + error * (2 / (same - rows).clamp_min(1)).sqrt()).clamp_min(0)
    known = (shots > 0).to(shots)
    more = known.sum(-2, keepdim=True) / (known / shots.clamp_min(1)).sum(-2, keepdim=True) - 1  # K̄ − 1
    return torch.where(more > ALONE, slope * J.square() / more.clamp_min(ALONE), torch.inf)


def steps_of_rows(alike: Tensor, n: Tensor, n_iter: int, every: bool = False) -> Tensor:
    """T of 6 (…, 1, 1), for `likeness` and the soft class sizes n (…, W, 1) at the start; n_iter for `every`."""
    uneven = spread_of(n) / max(n.shape[-2] - 1, 1)
    share = (alike + TAKING_PART[2] * uneven).clamp_max(1)
    return n_iter * (torch.ones_like(share) if every else share)


def in_every_step(how: BapaSettings) -> bool:
    """Whether unlabelled rows take part in all steps, as where sizes are told or rows whitened."""
    return how.prior is not None or how.whitened


def takes_part(step: int, T: Tensor, n_iter: int) -> Tensor:
    """1 in the last T of n_iter steps, 0 before; where T is not whole, its fraction in the first of them."""
    return (step + 1 - n_iter + T).clamp(0, 1)


def step_size(sigma: float, prior: Tensor | None) -> float:
    """σ, for class sizes that are estimated (prior None) or told."""
    return sigma if prior is None else min(TOLD_STEP * sigma, 1.0)


def recall(prior: Tensor | None) -> float:
    """ρ, for class sizes that are estimated (prior None) or told."""
    return RECALL[prior is not None]


def label_pulls(y: Tensor, logits: Tensor, known: Tensor | float, prior: Tensor | None) -> Tensor:
    """y + ρ(y − z) (…, W, S): what labelled rows weigh in each class's prototype (3), for their logits without ℓ.

    known (…, W, 1) is 0 for classes without labelled rows, which nothing pushes.
    """
    return y + recall(prior) * known * (y - logits.softmax(-2))


def told(class_prior: Sequence[float] | Tensor | str | None, n_way: int, like: Tensor) -> Tensor | None:
    """(W, 1): the shares of the classes where something is known of them."""
    return None if class_prior is None else shares(class_prior, n_way, like)[:, None]


def assigned(
    logits: Tensor, size_term: Tensor, prior: Tensor | None, doubt: Tensor | float = 0.0
) -> tuple[Tensor, Tensor]:
    """Step 2: z (E, W, U) for logits without ℓ, and ℓ (E, W, 1), which changes where a prior (W, 1) was told.

    doubt: r (E, 1, 1); 0 where every row is of a class, as in the answer. Where sizes are told, every row is.
    """
    for _ in range(0 if prior is None else TOLD_ROUNDS):
        n = (logits + size_term).softmax(1).sum(-1, keepdim=True)
        size_term = matched(n, logits.shape[-1], size_term, prior)
    return shared(logits + size_term, 1, doubt if prior is None else 0.0), size_term


def first_settled(n_iter: int) -> int:
    """The first step in which sizes may be taken to be equal."""
    return ceil(SETTLED * n_iter)


def matched(n: Tensor, n_rows: int, size_term: Tensor, prior: Tensor | None) -> Tensor:
    """ℓ (…, W, 1) after one round of 2′."""
    return size_term if prior is None else size_term + (n_rows * prior / n.clamp_min(TINY)).log()


def spread_of(n: Tensor) -> Tensor:
    """mean_c (n_c/n̄ − 1)² (…, 1, 1) of soft class sizes n (…, W, 1)."""
    n_mean = n.mean(-2, keepdim=True)
    return (n / n_mean.clamp_min(TINY) - 1).square().mean(-2, keepdim=True)


def unequal(n: Tensor, doubt: Tensor, chance: tuple[float, float]) -> Tensor:
    """Step 4: g (…, 1, 1) from soft class sizes n (…, W, 1) and r (…, 1, 1)."""
    theta2 = chance[0] / doubt.sqrt() + chance[1] / n.mean(-2, keepdim=True).clamp_min(TINY)
    return (1 - theta2 / spread_of(n).clamp_min(TINY)).clamp_min(0)


def class_sizes(
    n: Tensor,
    size_term: Tensor,
    doubt: Tensor,
    prior: Tensor | None,
    settled: bool,
    chance: tuple[float, float] = CHANCE,
    part: Tensor | float = 1.0,
) -> tuple[Tensor, Tensor]:
    """Steps 4 and 5: ℓ (…, W, 1), and what a row of each class counts in the centre, from soft class sizes n
    and r (…, 1, 1); `part` is `takes_part`: how much of both is new.

    `settled`: the last steps have begun, so sizes that are about equal are made so. With a prior ℓ stays, and rows
    count as if classes were equally frequent.
    """
    n_way = n.shape[-2]
    if prior is not None:
        return size_term, (1 / (n_way * prior)).expand_as(n)
    n_mean = n.mean(-2, keepdim=True).clamp_min(TINY)
    g = unequal(n, doubt, chance)
    f = (n / n_mean + SMOOTHING * doubt) / (1 + SMOOTHING * doubt)
    estimated = g * f.log()
    if settled:
        evened = size_term - n_mean / (n_mean + 1) * (n / n_mean).clamp_min(TINY).log()
        estimated = torch.where(g > 0, estimated, evened)
    weight = 1 / (1 + g * (f - 1))
    return size_term + part * (estimated - size_term), 1 + part * (weight - 1)


def of_classes(weight: Tensor, z: Tensor) -> Tensor:
    """w (E, 1, U): what each row counts in the centre, the mean of its classes' weights (E, W, 1)."""
    return (weight * z).sum(1, keepdim=True) / z.sum(1, keepdim=True)
