"""FEAT. Ye, Hu, Zhan, Sha: Few-Shot Learning via Embedding Adaptation with Set-to-Set Functions (CVPR 2020)."""

from torch import Tensor, nn

from protoadapt.core.heads.head import EpisodeHead, HeadShape, Noise, dropout
from protoadapt.core.methods.common import class_means, sq_distances

TEMPERATURE = 64.0
DROPPED = 0.5
ATTENTION_DROPPED = 0.1


class FEAT(EpisodeHead):
    """Prototypes look at each other before queries are compared with them:

        p′ = LayerNorm(p + drop(W_o softmax(Q Kᵀ/√D) V)),   Q, K, V = W_q p, W_k p, W_v p
        logits = −‖q − p′‖² / 64

    One attention head; dropout of 0.1 on the attention and 0.5 on its output while training.
    """

    noisy = True

    def __init__(self, shape: HeadShape):
        super().__init__(shape)
        self.q, self.k, self.v = (nn.Linear(shape.dim, shape.dim, bias=False) for _ in range(3))
        self.out, self.norm = nn.Linear(shape.dim, shape.dim), nn.LayerNorm(shape.dim)

    def adapt(self, rows: Tensor, noise: Noise = None) -> Tensor:
        """Rows (…, n, D) after attention among the n of a set."""
        weights = (self.q(rows) @ self.k(rows).mT / rows.shape[-1] ** 0.5).softmax(-1)
        seen = dropout(weights, ATTENTION_DROPPED, noise) @ self.v(rows)
        return self.norm(rows + dropout(self.out(seen), DROPPED, noise))

    def forward(self, support: Tensor, membership: Tensor, query: Tensor, noise: Noise = None) -> Tensor:
        return -sq_distances(query, self.adapt(class_means(support, membership), noise)) / TEMPERATURE
