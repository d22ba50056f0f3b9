"""Settings that a method learns on validation classes, before it sees the classes it is measured on."""

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import torch
from torch import Tensor

from protoadapt.core.arrays import checked_device, checked_rows
from protoadapt.core.episodes import draw
from protoadapt.core.errors import UserError, whole_number
from protoadapt.core.evaluate import compare
from protoadapt.core.methods import method
from protoadapt.core.protocol import Protocol

GRIDS: dict[str, dict[str, tuple[float | None, ...]]] = {
    "bapa": {"lam": (5, 8, 11, 15, 20), "kappa": (0.5, 1, 2, 4)},
    "paddle": {"scale": (None, 6, 8, 10, 12, 16, 24)},
}
"""Methods that try every combination of some values. The defaults are among them, and win ties."""


def tune(
    features: Tensor | np.ndarray,
    labels: Tensor | np.ndarray,
    name: str = "bapa",
    protocol: Protocol | None = None,
    *,
    episodes: int = 256,
    seed: int = 0,
    device: torch.device | str = "cpu",
    on_progress: Callable[[float], None] = lambda share: None,
) -> dict[str, Any]:
    """The settings of a method that fit tasks of validation classes: tried out, or learned if it says how.

    Parameters
    ----------
    features : array (N, D)
    labels : array (N,)
        Of validation classes, never of those that the method is measured on.
    name : str, default "bapa"
        bapa or paddle, or package.module:function of a method that learns its settings: its attribute `fit` takes
        episodes, the queries' labels (E, Q) and on_progress, and returns them.
    protocol : Protocol, optional
        The tasks to learn on; default: 5-way 1-shot, 15 queries per class.
    episodes : int, default 256
    seed : int, default 0
    device : str or torch.device, default "cpu"
    on_progress : function of float, optional
        Called with the share that is done.

    Returns
    -------
    dict
        Arguments of the method.

    Examples
    --------
    >>> settings = tune(validation.features, validation.labels, "paddle", Protocol("dirichlet"))
    >>> evaluate(novel.features, novel.labels, method("paddle", **settings), Protocol("dirichlet"))
    """
    protocol = protocol or Protocol()
    fit = getattr(method(name).function, "fit", None)
    if name not in GRIDS and not fit:
        raise UserError(f"{name!r} has no settings to tune: choose {', '.join(GRIDS)}, or a method of yours with `fit`")
    if protocol.kind == "open" or (protocol.kind == "semi" and name != "bapa"):
        raise UserError(f"{name} is not tuned on {protocol.kind} tasks: choose another, such as balanced or dirichlet")
    whole_number("episodes", episodes, 1, 100_000)
    if not fit:
        combinations = [dict(zip(GRIDS[name], values)) for values in product(*GRIDS[name].values())]
        tried = [method(name), *(method(name, **one) for one in combinations)]
        options: dict[str, Any] = {"episodes": episodes, "seed": seed, "device": device}
        options["on_progress"] = lambda done: on_progress(done / episodes)
        results = compare(features, labels, tried, protocol, **options)
        best = max(results, key=lambda result: result.accuracy).method
        return {key: best.settings[key] for key in GRIDS[name]}
    rows, classes = checked_rows(features, labels)
    rows = rows.float().to(checked_device(device))
    whole = next(draw(classes, protocol, seed, episodes, chunk=episodes))
    answers = torch.from_numpy(whole.query_labels).to(rows.device)
    return fit(whole.episodes(rows, protocol.way), answers, on_progress=on_progress)
