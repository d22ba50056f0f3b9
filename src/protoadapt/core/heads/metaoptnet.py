"""MetaOptNet. Lee, Maji, Ravichandran, Soatto: Meta-Learning with Differentiable Convex Optimization (CVPR 2019)."""

import torch
from torch import Tensor, nn

from protoadapt.core.heads.head import EpisodeHead, HeadShape
from protoadapt.core.methods.ridge import ridge_scores

PENALTY = 50.0


class MetaOptNetRidge(EpisodeHead):
    """A ridge regression to the support labels, solved in closed form for each episode; s is learned:

        logits = s · X_q X_sᵀ · 2 (X_s X_sᵀ + 50 I)⁻¹ Y

    Rows are the un-pooled features, as in the authors' code.
    """

    places = True

    def __init__(self, shape: HeadShape):
        super().__init__(shape)
        self.scale = nn.Parameter(torch.ones(()))

    def forward(
        self, support: Tensor, membership: Tensor, query: Tensor, noise: torch.Generator | None = None
    ) -> Tensor:
        return 2 * self.scale * ridge_scores(support, membership, query, PENALTY)
