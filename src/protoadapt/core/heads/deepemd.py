"""DeepEMD. Zhang, Cai, Lin, Shen: Few-Shot Image Classification with Differentiable Earth Mover's Distance (CVPR 2020).

Axes: E episodes, Q queries, W classes, P places of a picture, C channels.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from protoadapt.core.heads.head import EpisodeHead, Noise
from protoadapt.core.methods.common import class_means

_SCALE = 12.5
ENTROPY = 0.05
_ROUNDS = 100
_RATE, _MOMENTUM = 0.1, 0.9


class DeepEMD(EpisodeHead):
    """The places of a query are transported to those of a class at the least cost:

        logits = 12.5/P Σ_ij flow_ij cos(u_i, v_j),   cost 1 − cos after centring over the channels

    A place weighs relu(u · v̄) + 10⁻³, its similarity to the mean of the other picture. With several shots the places of
    a class are found by 100 gradient steps on the support (a structured fully connected layer), from the class mean.

    Differences to the authors' code: the flow is that of Sinkhorn's iteration at ε = 0.05, which solves all pairs of a
    step at once, not an exact linear program; those gradient steps see the whole support, not random parts of it, and
    are left out in training with several shots. As there, flows carry no gradient.
    """

    places = True
    steps = 100

    def forward(self, support: Tensor, membership: Tensor, query: Tensor, noise: Noise = None) -> Tensor:
        classes, queries = self._places(class_means(support, membership)), self._places(query)
        if not self.training and support.shape[1] > membership.shape[-1]:
            classes = self._structured(classes, self._places(support), membership)
        return transport_logits(classes, queries)

    def episode_numbers(self, n_rows: int, n_way: int) -> int:
        return 8 * n_rows * n_way * self.shape.side**4

    def _places(self, rows: Tensor) -> Tensor:
        """Rows (E, n, C · P) as (E, n, P, C)."""
        return self.maps(rows).flatten(-2).mT

    def _structured(self, classes: Tensor, support: Tensor, membership: Tensor) -> Tensor:
        """Class places (E, W, P, C) that answer the support rows (E, S, P, C) best: SGD on their cross-entropy."""
        velocity = torch.zeros_like(classes)
        for _ in range(self.steps):
            with torch.enable_grad():
                classes = classes.detach().requires_grad_()
                log_p = transport_logits(classes, support.detach()).log_softmax(-1)
                # A mean over the support of each episode: neighbours in the batch change nothing.
                loss = -(membership * log_p).sum() / support.shape[1]
                (gradient,) = torch.autograd.grad(loss, classes)
            velocity = _MOMENTUM * velocity + (1 - _MOMENTUM) * gradient
            classes = classes.detach() - _RATE * velocity
        return classes


def transport_logits(classes: Tensor, queries: Tensor) -> Tensor:
    """(E, Q, W) of class places (E, W, P, C) and query places (E, Q, P, C)."""
    of_query, of_class = (
        torch.relu(torch.einsum(axes, places, other.mean(2))) + 1e-3
        for axes, places, other in (("eqpc,ewc->eqwp", queries, classes), ("ewpc,eqc->eqwp", classes, queries))
    )
    u, v = (F.normalize(x - x.mean(-1, keepdim=True), dim=-1) for x in (queries, classes))
    similarity = torch.einsum("eqic,ewjc->eqwij", u, v)
    with torch.no_grad():
        flow = least_cost_flow(similarity, of_query, of_class)
    return _SCALE / queries.shape[2] * (flow * similarity).sum((-2, -1))


def least_cost_flow(similarity: Tensor, sources: Tensor, sinks: Tensor) -> Tensor:
    """(…, P, P): the flow from sources (…, P) to sinks (…, P), each scaled to a sum of P, that costs least at
    1 − similarity (…, P, P), less ENTROPY times its entropy; the last round meets the sinks exactly."""
    a, b = (w * w.shape[-1] / w.sum(-1, keepdim=True) for w in (sources, sinks))
    kernel = ((similarity - similarity.amax((-2, -1), keepdim=True)) / ENTROPY).exp()
    right = torch.ones_like(b)
    for _ in range(_ROUNDS):
        left = a / (kernel @ right[..., None])[..., 0].clamp_min(1e-30)
        right = b / (left[..., None, :] @ kernel)[..., 0, :].clamp_min(1e-30)
    return left[..., None] * kernel * right[..., None, :]
