"""Matching Networks. Vinyals, Blundell, Lillicrap, Kavukcuoglu, Wierstra (NeurIPS 2016)."""

import torch
import torch.nn.functional as F
from torch import Tensor

from protoadapt.core.heads.head import EpisodeHead
from protoadapt.core.methods.matching_net import label_attention


class MatchingNet(EpisodeHead):
    """Each query takes the labels of the support rows it resembles; `methods.matching_net` with its gradient.

    Without full context embeddings there is nothing to learn but the backbone.
    """

    def forward(
        self, support: Tensor, membership: Tensor, query: Tensor, noise: torch.Generator | None = None
    ) -> Tensor:
        support, query = F.normalize(support, dim=-1), F.normalize(query, dim=-1)
        return (label_attention(support, membership, query) + 1e-6).log()
