"""Settings that a method learns on validation classes, before it sees the classes it is measured on."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from protoadapt.core.arrays import checked, usable
from protoadapt.core.episodes import Draw, draw
from protoadapt.core.errors import UserError, whole_number
from protoadapt.core.methods.unem import fit_unem
from protoadapt.core.protocol import Protocol

FITTED = {"unem": fit_unem}
"""Methods that learn settings, and how."""


def tune(
    features: Tensor | np.ndarray,
    labels: Tensor | np.ndarray,
    name: str = "unem",
    protocol: Protocol | None = None,
    *,
    episodes: int = 256,
    seed: int = 0,
    device: torch.device | str = "cpu",
) -> dict[str, Any]:
    """The settings of a method that fit tasks of validation classes.

    Parameters
    ----------
    features : array (N, D)
    labels : array (N,)
        Of validation classes, never of those that the method is measured on.
    name : str, default "unem"
    protocol : Protocol, optional
        The tasks to learn on; default: 5-way 1-shot, 15 queries per class.
    episodes : int, default 256
    seed : int, default 0
    device : str or torch.device, default "cpu"

    Returns
    -------
    dict
        Arguments of the method.

    Examples
    --------
    >>> settings = tune(validation.features, validation.labels, "unem", Protocol("dirichlet"))
    >>> evaluate(novel.features, novel.labels, method("unem", **settings), Protocol("dirichlet"))
    """
    protocol = protocol or Protocol()
    if name not in FITTED:
        raise UserError(f"{name!r} learns no settings: choose {', '.join(FITTED)}")
    if protocol.kind in ("semi", "open"):
        raise UserError(f"{name} has no {protocol.kind} form: learn on another protocol, such as balanced or dirichlet")
    rows, classes = checked(features, labels)
    whole_number("episodes", episodes, 1, 100_000)
    rows = rows.float().to(usable(device))
    parts = [(b.support, b.support_labels, b.query, b.query_labels) for b in draw(classes, protocol, seed, episodes)]
    whole = Draw(*(np.concatenate(blocks) for blocks in zip(*parts)))
    return FITTED[name](whole.episodes(rows, protocol.way), torch.from_numpy(whole.query_labels).to(rows.device))
