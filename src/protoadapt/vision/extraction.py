"""One split of a dataset, or a user's own folder of classes, as a table of features."""

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from protoadapt.core.errors import whole_number
from protoadapt.core.features import Features, base_statistics
from protoadapt.vision.embed import check_rows, embed
from protoadapt.vision.networks.cards import MOST_VIEWS
from protoadapt.vision.pictures.split import Images


def extract_features(
    network: nn.Module,
    metadata: dict[str, Any],
    images: Images,
    base: Images | None = None,
    *,
    views: int = 1,
    pooling: float = 1.0,
    maps: bool = False,
    on_progress: Callable[[int], None] = lambda done: None,
) -> Features:
    """Embeds one split of a dataset into a table that says how it was made.

    Parameters
    ----------
    network, metadata : as `networks.load` returns them.
    images : N pictures, decoded.
    base : those of the base classes, for the means and the covariance that some methods use.
    views, pooling : as in `embed.embed_batches`.
    maps : also the features of every place, float16, in a second pass.
    on_progress : called with the number of views embedded so far, those of `base` included.

    Returns
    -------
    Features
        Rows (N, D) float32, labels, the pictures' paths as names, and metadata of the network and of the pictures.

    Examples
    --------
    >>> save_features("novel.safetensors", extract_features(network, metadata, images))   # doctest: +SKIP
    """
    whole_number("views", views, 1, MOST_VIEWS)
    rows = check_rows(embed(network, metadata, images.pixels, views, on_progress, pooling=pooling))
    statistics: dict[str, Any] = {}
    if base is not None:
        counted = lambda n: on_progress(len(images) * views + n)  # noqa: E731
        others = check_rows(embed(network, metadata, base.pixels, views, counted, pooling=pooling))
        statistics = base_statistics(others, torch.from_numpy(np.array(base.labels)))
    about = {key: metadata.get(key) for key in ("backbone", "width", "weights", "engine", "size", "mean", "std")}
    about |= {"trained_on": metadata.get("dataset"), "dataset": images.name, "split": images.split, "crop": images.crop}
    about |= {"views": views, "pooling": pooling, "rectified": bool((rows >= 0).all())}
    about["class_names"] = list(images.class_names)
    if images.name == "folder":  # a user's own: the name of the folder, as text whatever its bytes are
        about["folder"] = os.fsencode(images.root.resolve().name).decode("utf-8", "replace")
    places = embed(network, metadata, images.pixels, views, maps=True) if maps else None
    labels = torch.from_numpy(np.array(images.labels)).long()
    return Features(rows, labels, metadata=about, maps=places, names=tuple(images.paths), **statistics)
