"""LR+ICI. Wang, Xu, Liu, Zhang, Fu: Instance Credibility Inference for Few-Shot Learning (CVPR 2020).

Logistic regression labels the queries, and the most credible labels join the training rows, round after round. With X
the principal components of all rows, H = X(XᵀX)⁻¹Xᵀ and Y their labels, a row's label is the more credible the smaller
the penalty λ at which its offset γ_i is zero in the group Lasso

    min_γ ‖(I − H)(Y − γ)‖²/2N + λ Σ_i ‖γ_i‖ .

scikit-learn solves both, one task after the other: slow, 600 episodes are usual.
"""

from typing import Annotated

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression, enet_path
from torch import Tensor

from protoadapt.core.episodes import Episodes
from protoadapt.core.methods.common import transductive_only, unit
from protoadapt.core.methods.settings import Setting, checked

Inverse = Annotated[float, Setting("inverse strength of the logistic regression's penalty", 1e-6, 1e6)]
Components = Annotated[int, Setting("number of principal components", 1, 1000)]
Penalties = Annotated[int, Setting("number of penalties on the Lasso's path", 2, 10_000)]
Ratio = Annotated[float, Setting("smallest penalty as a share of the largest", 1e-9, 0.999)]

PerClass = Annotated[int, Setting("queries per class that join the support in each round", 1, 100_000)]


@checked
def lr_ici(
    episodes: Episodes,
    *,
    C: Inverse = 10.0,
    n_components: Components = 5,
    per_class: PerClass = 5,
    n_lambdas: Penalties = 100,
    ratio: Ratio = 1e-3,
) -> Tensor:
    """Logistic regression that takes in its most credible pseudo-labels, round after round. Returns (E, Q, W), hard.

    A round labels all queries again, adds the `per_class` most credible new ones of each label to the training rows and
    fits again, until all are in. Assumes no class sizes, though every class gains equally many rows per round.
    """
    transductive_only(episodes, "LR+ICI")
    table = episodes.each_row(unit)
    rows = torch.cat([table.support, table.query], 1).double().cpu().numpy()
    shots = episodes.support_index.shape[1]
    answers = []
    for x, known in zip(rows, episodes.support_labels.cpu().numpy()):
        rest = np.eye(len(x)) - _projection(x, n_components)
        labels, chosen = known, np.arange(len(x)) < shots
        while True:
            model = LogisticRegression(C=C, tol=1e-8, max_iter=10_000).fit(x[chosen], labels[chosen[: len(labels)]])
            labels = np.concatenate([known, model.predict(x[shots:])])
            if chosen.all():
                break
            doubt = _doubt(rest, np.eye(episodes.n_way)[labels], n_lambdas, ratio)
            for c in range(episodes.n_way):
                left = np.flatnonzero(~chosen & (labels == c))
                chosen[left[np.argsort(doubt[left], kind="stable")[:per_class]]] = True
        answers.append(labels[shots:])
    one_hot = np.eye(episodes.n_way)[np.stack(answers)]
    return torch.from_numpy(one_hot).to(episodes.rows)


def _projection(x: np.ndarray, n_components: int) -> np.ndarray:
    """H (N, N) of rows x (N, D)."""
    u, length, _ = np.linalg.svd(x - x.mean(0), full_matrices=False)
    u = u[:, :n_components] * (length[:n_components] > 1e-6)
    return u @ u.T


def _doubt(rest: np.ndarray, y: np.ndarray, n_lambdas: int, ratio: float) -> np.ndarray:
    """(N): the place on the path, from below, of the smallest penalty at which a row's offset is zero.

    Within a place the row with the smaller residual comes first: its share of the penalty is added.
    """
    largest = np.linalg.norm(rest @ y, axis=1).max() / len(y)
    penalties = max(largest, 1e-12) * np.geomspace(1, ratio, n_lambdas)
    _, path, _ = enet_path(rest, rest @ y, l1_ratio=1.0, alphas=penalties, tol=1e-7, max_iter=10_000)
    offsets = path.transpose(2, 1, 0)  # (λ, N, W)
    size = np.linalg.norm(rest @ (y - offsets), axis=2) / (len(y) * penalties[:, None])
    smallest = (offsets == 0).all(2).cumsum(0).argmax(0)  # the last place at which the offset is zero
    return n_lambdas - 1 - smallest + np.minimum(size[smallest, np.arange(len(y))], 1)
