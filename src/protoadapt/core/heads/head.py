"""The contract of a trained head: a few-shot classifier with parameters, learned together with its backbone.

The same module is trained (`training.objectives`), saved beside the backbone and run on any episodes
(`as_method`), so a number is always that of what was trained.

Axes as in `episodes`: E episodes, W classes, S support rows, Q queries, D dimensions of a row. Heads that look at the
places of the last stage get rows that hold them: D = C · side², channel by channel (`maps`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from protoadapt.core.episodes import Episodes
from protoadapt.core.errors import UserError
from protoadapt.core.methods.common import transductive_only

Noise = torch.Generator | None
"""A source of dropout and samples while training; None: without."""
Parts = tuple[Tensor, Tensor, Tensor]
"""Support rows, their classes and query rows, as `EpisodeHead.forward` takes them."""
Film = tuple[Tensor, Tensor]
"""γ and β, (E, C) each: a layer's C channels become (1 + γ) h + β in the episode (Perez et al. 2018)."""


@dataclass(frozen=True)
class HeadShape:
    """What a head is built for: C channels of the backbone, side × side places of its last stage, and the way and shot
    of the training episodes. Saved with a run, so that its head can be built again."""

    dim: int
    side: int
    way: int
    shot: int
    channels: tuple[int, ...] = ()  # of the layers that a head conditions


class EpisodeHead(nn.Module):
    """A head. Subclasses give `forward`, and say what they need or cannot do by the constants below."""

    places: ClassVar[bool] = False
    """Rows hold the places of the last stage, not their mean."""
    fixed_way: ClassVar[bool] = False
    """Answers as many classes as it was trained with, and no others."""
    fixed_shot: ClassVar[bool] = False
    """Takes as many support rows per class as it was trained with, and no others."""

    conditions: ClassVar[bool] = False
    """The network is run again for each episode, conditioned on its support (`film`)."""

    def __init__(self, shape: HeadShape):
        super().__init__()
        self.shape = shape

    def film(self, support: Tensor, membership: Tensor) -> list[Film]:
        """Conditions of every layer, given support rows (E, S, D) without conditions and their classes (E, S, W)."""
        raise NotImplementedError

    def forward(self, support: Tensor, membership: Tensor, query: Tensor, noise: Noise = None) -> Tensor:
        """Class logits (E, Q, W) of query rows (E, Q, D), given support rows (E, S, D) and their classes as one-hot
        rows (E, S, W). noise: source of dropout while training; None: no dropout."""
        raise NotImplementedError

    def train_step(
        self, parts: Parts, targets: Tensor, smoothing: float = 0.0, noise: Noise = None
    ) -> tuple[Tensor, Tensor]:
        """The logits, and the mean loss () of queries whose classes are `targets` (E, Q): cross-entropy, unless the
        paper has another. parts: the first three of `forward`; smoothing: share of each target spread over all
        classes."""
        logits = self(*parts, noise)
        return logits, self.loss(logits, targets, smoothing)

    def loss(self, logits: Tensor, targets: Tensor, smoothing: float) -> Tensor:
        """The mean loss () of logits (E, Q, W) by targets (E, Q)."""
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), label_smoothing=smoothing)

    def episode_numbers(self, n_rows: int, n_way: int) -> int:
        """How many numbers an episode of so many rows and classes holds at the peak, besides its rows."""
        return 0

    def maps(self, rows: Tensor) -> Tensor:
        """Rows (…, C · side²) as (…, C, side, side)."""
        return rows.unflatten(-1, (self.shape.dim, self.shape.side, self.shape.side))


def as_method(
    name: str, head: EpisodeHead, embed: Callable[[Tensor, list[Film] | None], Tensor] | None = None
) -> Callable[[Episodes], Tensor]:
    """A trained head as an inference method: Episodes → probabilities (E, Q, W).

    Parameters
    ----------
    name : str
        Its name in `HEADS`, for errors.
    head : EpisodeHead
        Not changed, but computed in evaluation mode.
    embed : function, optional
        For a head that `conditions` its network: numbers (E, n) and the conditions of the episodes (None: without) →
        features (E, n, D). The rows of the episodes are then the numbers of the pictures,
        `torch.arange(n)[:, None]`.

    Examples
    --------
    >>> evaluate(table.features, table.labels, as_method("feat", head), Protocol(shot=5))
    >>> method = as_method("tadam", head, film.embedder(network, metadata, pixels))
    >>> evaluate(torch.arange(len(labels))[:, None], labels, method, Protocol(shot=5))
    """

    def run(episodes: Episodes) -> Tensor:
        _check_episodes(name, head.eval(), episodes, pictures=embed is not None)
        own = next(head.parameters(), episodes.rows)
        support, membership, query = episodes.support, episodes.membership.to(own), episodes.query
        with torch.autocast(own.device.type, enabled=False):
            if embed:
                numbers = torch.cat([support, query], 1)[..., 0].long()
                films = head.film(embed(numbers[:, : support.shape[1]], None).to(own), membership)
                support, query = embed(numbers, films).split([support.shape[1], query.shape[1]], 1)
            logits = head(support.to(own), membership, query.to(own))
        return logits.to(episodes.rows).softmax(-1)

    run.__name__ = run.__qualname__ = name
    run.episode_numbers = head.episode_numbers  # type: ignore[attr-defined]  # for `evaluate.episode_bytes`
    return run


def _check_episodes(name: str, head: EpisodeHead, episodes: Episodes, pictures: bool) -> None:
    """Raises UserError where a head cannot answer these episodes."""
    transductive_only(episodes, name)
    shape, shots = head.shape, episodes.shots
    n_numbers = shape.dim * shape.side**2 if head.places else shape.dim
    maps = "with --maps, as it looks at the places of the last stage" if head.places else "without --maps"
    facts = [
        (not pictures, "numbers per row", n_numbers, [episodes.rows.shape[1]], f"extract with its own network, {maps}"),
        (head.fixed_way, "classes", shape.way, [episodes.n_way], f"set --way {shape.way}"),
        (head.fixed_shot, "support rows per class", shape.shot, shots.unique().tolist(), f"set --shot {shape.shot}"),
    ]
    for counts, what, trained, found, way_out in facts:
        if counts and found != [trained]:
            raise UserError(f"{name} was trained with {trained} {what} and the episodes have {found[0]:g}: {way_out}")


def dropout(x: Tensor, share: float, noise: Noise) -> Tensor:
    """x with a share of its entries set to 0 and the others enlarged to keep the mean; x itself without noise."""
    if noise is None:
        return x
    kept = torch.rand(x.shape, generator=noise, device=x.device) >= share
    return x * kept / (1 - share)
