"""Matching Networks. Vinyals, Blundell, Lillicrap, Kavukcuoglu, Wierstra (NeurIPS 2016)."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from protoadapt.core.heads.head import EpisodeHead, HeadShape, Noise
from protoadapt.core.methods.inductive import label_attention


class MatchingNet(EpisodeHead):
    """Each query takes the labels of the support rows it resembles; `methods.inductive.matching_net` with its gradient.

    Without full context embeddings there is nothing to learn but the backbone.
    """

    def forward(self, support: Tensor, membership: Tensor, query: Tensor, noise: Noise = None) -> Tensor:
        support, query = F.normalize(support, dim=-1), F.normalize(query, dim=-1)
        return (label_attention(support, membership, query) + 1e-6).log()


class MatchingNetFCE(MatchingNet):
    """With full context embeddings: support rows see each other, and a query looks at them, before they are compared.

    A support row s is g(s) = s + the outputs of an LSTM that reads the support forwards and of one that reads it
    backwards. A query f is read S times by an LSTM whose input is [f; what it attends to among the g], from h = f:

        a = softmax(h · g)        h, c ← LSTM([f; Σ a g], (h, c))        h ← h + f

    The support is read in its order, so another order gives another answer.
    """

    def __init__(self, shape: HeadShape):
        super().__init__(shape)
        self.reader = nn.LSTM(shape.dim, shape.dim, batch_first=True, bidirectional=True)
        self.looker = nn.LSTMCell(2 * shape.dim, shape.dim)

    def forward(self, support: Tensor, membership: Tensor, query: Tensor, noise: Noise = None) -> Tensor:
        forwards, backwards = self.reader(support)[0].chunk(2, -1)
        support = support + forwards + backwards
        f, h, c = query, query, torch.zeros_like(query)
        for _ in range(support.shape[1]):
            seen = (h @ support.mT).softmax(-1) @ support
            state = self.looker(torch.cat([f, seen], -1).flatten(0, 1), (h.flatten(0, 1), c.flatten(0, 1)))
            h, c = (part.unflatten(0, f.shape[:2]) for part in state)
            h = h + f
        return super().forward(support, membership, h)
