"""BD-CSPN. Liu, Song, Qin: Prototype Rectification for Few-Shot Learning (ECCV 2020).

Queries move to the support's mean, and prototypes to the weighted mean of the rows nearest to them.
"""

import torch
from torch import Tensor

from protoadapt.core.episodes import Episodes
from protoadapt.core.methods.common import cl2n, class_means, sq_distances, tied_argmax, transductive_only, unit
from protoadapt.core.methods.settings import checked


@checked
def bd_cspn(episodes: Episodes) -> Tensor:
    """The nearest rectified prototype; rows centred by the base classes' mean and of unit length. Returns (E, Q, W).

    Assumes nothing on the class sizes, but the shift takes the queries' mean for the support's: it is at its best when
    the queries are as mixed as the support.
    """
    transductive_only(episodes, "BD-CSPN")
    query, prototypes = rectified(cl2n(episodes, "BD-CSPN"))
    return tied_argmax(-sq_distances(query, prototypes))


def rectified(episodes: Episodes) -> tuple[Tensor, Tensor]:
    """The paper's two rectifications: the shifted queries (E, Q, D) and the new prototypes (E, W, D).

    Cross-class bias: the queries move by the difference of the two sets' means. Intra-class bias: every row, labelled
    or not, joins the class of its nearest prototype (those that tie share it), and the new prototype is the members'
    mean, each weighted by softmax(10·cos). A class that no row joins keeps its support mean.
    """
    support, means = episodes.support, class_means(episodes.support, episodes.membership)
    query = episodes.query + support.mean(1, keepdim=True) - episodes.query.mean(1, keepdim=True)
    rows = torch.cat([support, query], 1)
    cosine = unit(rows) @ unit(means).mT
    members = tied_argmax(cosine)
    sizes = members.sum(1)[..., None]
    weighted = (members * (10 * cosine).softmax(-1)).mT @ rows
    return query, torch.where(sizes > 0, weighted / sizes, means)
