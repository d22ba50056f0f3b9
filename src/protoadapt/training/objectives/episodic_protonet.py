"""Episodic training of Prototypical Networks (Snell et al. 2017; the paper's Eqs. 1–3)."""

import torch
import torch.nn.functional as F
from torch import Tensor


def protonet_logits(features: Tensor, shot: int, temperature: Tensor) -> Tensor:
    """(E, W, Q, W): −τ·‖q − p_c‖² of each query, from features (E, W, K+Q, D) with K = `shot` support rows first."""
    prototypes = features[:, :, :shot].mean(2)  # (E, W, D)
    query = features[:, :, shot:].flatten(1, 2)  # (E, W·Q, D)
    distances = (query[:, :, None] - prototypes[:, None]).square().sum(-1)
    return -temperature * distances.unflatten(1, (features.shape[1], -1))


def protonet(features: Tensor, shot: int, temperature: Tensor) -> Tensor:
    """Mean cross-entropy of every query against its own class's place among the W prototypes."""
    logits = protonet_logits(features, shot, temperature)
    classes = torch.arange(logits.shape[1], device=logits.device)[:, None].expand(logits.shape[:3])
    return F.cross_entropy(logits.flatten(0, 2), classes.flatten())
