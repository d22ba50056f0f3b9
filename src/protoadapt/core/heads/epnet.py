"""EPNet. Rodríguez, Laradji, Drouin, Lacoste: Embedding Propagation (ECCV 2020)."""

from torch import Tensor

from protoadapt.core.heads.head import EpisodeHead, Noise
from protoadapt.core.methods.embedding_propagation import propagated_scores


class EPNet(EpisodeHead):
    """Label propagation over propagated embeddings; `methods.embedding_propagation` with its gradient.

    It has no parameters: training shapes the backbone.
    """

    def forward(self, support: Tensor, membership: Tensor, query: Tensor, noise: Noise = None) -> Tensor:
        return (propagated_scores(support, membership, query) + 1e-6).log()
