"""FEAT's second loss (Ye et al. 2020, section 3.3): after attention within its class, every row finds its class centre.

c_w = mean over the K + Q rows x of class w of adapt(x | rows of class w)        loss = −log softmax_w(−‖x − c_w‖²/τ)
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from protoadapt.core.methods.common import sq_distances
from protoadapt.training.objectives.episodic_heads import HEAD_MAKERS
from protoadapt.training.objectives.objective import Needs, Objective, Outputs

TEMPERATURE = {1: 64.0}
"""τ by shot; 32 for more shots. Both are the authors' choice for ResNet-12 on mini-ImageNet."""


def contrast_loss(rows: Tensor, adapted: Tensor, temperature: float) -> Tensor:
    """Mean cross-entropy () of rows (E, W, n, D) against the W means of the adapted rows (E, W, n, D)."""
    distances = sq_distances(rows.flatten(1, 2), adapted.mean(2))  # (E, W·n, W)
    way, each = rows.shape[1:3]
    own = torch.arange(way, device=rows.device).repeat_interleave(each).repeat(len(rows))
    return F.cross_entropy(-distances.flatten(0, 1) / temperature, own)


def _loss(outputs: Outputs) -> Tensor:
    with torch.autocast(outputs.features.device.type, enabled=False):
        rows = outputs.episode_features.float()
        adapted = outputs.heads["feat"].adapt(rows, outputs.noise)  # type: ignore[union-attr,operator]
        return contrast_loss(rows, adapted, TEMPERATURE.get(outputs.config.shot, 32.0))


OBJECTIVE = Objective(_loss, Needs(heads={"feat": HEAD_MAKERS["feat"]}, episodes=True, noise=True))
