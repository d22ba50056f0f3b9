"""BD-CSPN. Liu, Song, Qin: Prototype Rectification for Few-Shot Learning (ECCV 2020)."""

import torch
from torch import Tensor

from protoadapt.episodes import Episodes
from protoadapt.methods._checks import transductive_only
from protoadapt.methods._ties import tied_argmax
from protoadapt.methods.common import cl2n, class_means, cosine, sq_distances


def bd_cspn(episodes: Episodes) -> Tensor:
    """The nearest rectified prototype; rows centred by the base classes' mean and of unit length. Returns (E, Q, W).

    Assumes nothing on the class sizes, but the shift takes the queries' mean for the support's: it is at its best when
    the queries are as mixed as the support.
    """
    transductive_only(episodes, "BD-CSPN")
    prototypes, query = rectified(cl2n(episodes))
    return tied_argmax(-sq_distances(query, prototypes))


def rectified(episodes: Episodes, temperature: float = 10.0) -> tuple[Tensor, Tensor]:
    """Prototypes (E, W, D) after both of the paper's rectifications, and the shifted queries (E, Q, D).

    Cross-class bias: the queries move by the difference of the two sets' means. Intra-class bias: every row, labelled
    or not, joins the class of its nearest prototype (those that tie share it), and the new prototype is the members'
    mean, each weighted by softmax(10·cos). A class that no row joins keeps its support mean.
    """
    support, query = episodes.support, episodes.query
    query = query + (support.mean(1, keepdim=True) - query.mean(1, keepdim=True))
    rows = torch.cat([support, query], 1)
    prototypes = class_means(support, episodes.membership)
    similarity = cosine(rows, prototypes)  # (E, S + Q, W)
    members = tied_argmax(similarity)
    weights = members * (temperature * similarity).softmax(-1)
    sizes = members.sum(1)[..., None]
    return torch.where(sizes > 0, weights.mT @ rows / sizes, prototypes), query
