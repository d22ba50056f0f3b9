"""BD-CSPN. Liu, Song, Qin: Prototype Rectification for Few-Shot Learning (ECCV 2020).

Queries move to the support's mean, and prototypes to the weighted mean of the rows nearest to them.
Prototypes are mixtures of the episode's rows, p = A z with A (E, W, N), and all that is asked of rows and prototypes
are distances and cosines. So one Gram matrix of the N = S + Q rows is the only D-dimensional work.
"""

import torch
from torch import Tensor

from protoadapt.core.episodes import Episodes
from protoadapt.core.methods.common import TINY, cl2n, gram_and_means, tied_argmax, transductive_only
from protoadapt.core.methods.settings import checked


@checked
def bd_cspn(episodes: Episodes) -> Tensor:
    """The nearest rectified prototype; rows centred by the base classes' mean and of unit length. Returns (E, Q, W).

    Assumes nothing on the class sizes, but the shift takes the queries' mean for the support's: it is at its best when
    the queries are as mixed as the support.
    """
    transductive_only(episodes, "BD-CSPN")
    gram, A = gram_and_means(cl2n(episodes, "BD-CSPN"))
    gram, A = rectified(gram, A, episodes.support_index.shape[1])
    return tied_argmax(-query_distances(gram, A, episodes.support_index.shape[1]).mT)


def rectified(gram: Tensor, A: Tensor, n_support: int) -> tuple[Tensor, Tensor]:
    """The paper's two rectifications: the Gram matrix of support rows and shifted queries, and the new prototypes.

    Cross-class bias: the queries move by the difference of the two sets' means. Intra-class bias: every row, labelled
    or not, joins the class of its nearest prototype (those that tie share it), and the new prototype is the members'
    mean, each weighted by softmax(10·cos). A class that no row joins keeps its support mean.
    """
    n_query = gram.shape[1] - n_support
    is_query = torch.cat([gram.new_zeros(n_support), gram.new_ones(n_query)])
    mean_difference = (1 - is_query) / n_support - is_query / n_query  # the shift δ, as a mixture of the rows
    shift = torch.eye(gram.shape[1]).to(gram) + is_query[:, None] * mean_difference  # z_i ← z_i + [i a query] δ
    gram = shift @ gram @ shift.mT
    inner = A @ gram
    lengths = gram.diagonal(dim1=1, dim2=2).clamp_min(0).sqrt()[:, None] * squared_norms(A, inner).sqrt()
    cosine = inner / lengths.clamp_min(TINY)
    members = tied_argmax(cosine.mT).mT
    sizes = members.sum(-1, keepdim=True)
    weighted = members * (10 * cosine).softmax(1)
    return gram, torch.where(sizes > 0, weighted / sizes, A)


def query_distances(gram: Tensor, A: Tensor, n_support: int) -> Tensor:
    """(E, W, Q): squared distances of the prototypes to the queries."""
    inner = A @ gram
    distances = gram.diagonal(dim1=1, dim2=2)[:, None] - 2 * inner + squared_norms(A, inner)
    return distances[..., n_support:].clamp_min(0)


def squared_norms(A: Tensor, inner: Tensor) -> Tensor:
    """(E, W, 1): ‖p‖² = Σ A·inner with inner = A gram."""
    return (A * inner).sum(-1, keepdim=True).clamp_min(0)
