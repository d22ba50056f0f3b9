"""Episodes for tests: clouds of non-negative rows, any shape, any type."""

import inspect
from importlib import import_module

import numpy as np
import torch

from protoadapt.core.episodes import Episodes
from protoadapt.core.features import BASE
from protoadapt.core.methods import METHODS, declarations


def clouds(
    episodes=3,
    way=3,
    shots=(2, 1, 3),
    queries=12,
    dim=16,
    spread=0.5,
    seed=0,
    dtype=torch.float64,
    unlabeled=0,
    balanced=False,
) -> tuple[Episodes, torch.Tensor]:
    """Episodes with unequal shots around random class centres, and the queries' labels (E, Q)."""
    rng = np.random.default_rng(seed)
    shots = [shots] * way if isinstance(shots, int) else list(shots)[:way]
    centres = rng.gamma(1.0, size=(episodes, way, dim))
    support_labels = np.tile(np.repeat(np.arange(way), shots), (episodes, 1))
    query_labels = rng.integers(0, way, (episodes, queries))
    if balanced:
        query_labels = np.stack([rng.permutation(np.arange(queries) % way) for _ in range(episodes)])

    def rows(labels):
        picked = np.take_along_axis(centres, labels[..., None], 1)
        return torch.from_numpy(np.maximum(picked + spread * rng.normal(size=picked.shape), 0)).to(dtype)

    extra = rows(rng.integers(0, way, (episodes, unlabeled))) if unlabeled else None
    mean = torch.from_numpy(centres.mean((0, 1))).to(dtype)
    within = torch.from_numpy(rng.normal(size=(2 * dim, dim)) / (2 * dim)).to(dtype)
    base = {"base_mean": mean, "base_covariance": within.T @ within}
    made = Episodes.from_tensors(
        rows(support_labels), torch.from_numpy(support_labels), rows(query_labels), way, extra, **base
    )
    return made, torch.from_numpy(query_labels)


def groups(sizes: list[int], spread: float = 0.15, dim: int = 24, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Unit rows in float32 around one direction per group, and their groups."""
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(len(sizes)), sizes)
    rows = np.eye(dim)[codes] + spread * rng.normal(size=(len(codes), dim))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32), codes


def remade(episodes: Episodes, **changes: torch.Tensor) -> Episodes:
    """Episodes like these, with other rows or labels."""
    names = ("support", "support_labels", "query", "unlabeled", *BASE)
    parts = {name: getattr(episodes, name) for name in names} | changes
    return Episodes.from_tensors(n_way=episodes.n_way, **parts)


ODD = {  # support rows and rows without a label, of such
    "duplicates": lambda support, rows: (support, rows[:, :3].repeat(1, 4, 1)),
    "zeros": lambda support, rows: (support, 0 * rows),
    "zeros everywhere": lambda support, rows: (0 * support, 0 * rows),
    "one row": lambda support, rows: (support, rows[:, :1]),
    "one row everywhere": lambda support, rows: (support[:, :1].expand_as(support), support[:, :1].expand_as(rows)),
    "one class": lambda support, rows: (support, support[:, :1] + 0.01 * rows),
    "the support": lambda support, rows: (support, support),
}


def slow_loop(name: str):
    """The reference loop of a method: of the same name, in a file of the same name."""
    return getattr(import_module(f"reference.{METHODS[name].__module__.rpartition('.')[2]}"), name)


def slow(loop, episodes: Episodes, **arguments) -> torch.Tensor:
    """A one-episode numpy reference, or that of the method of a name, looped."""
    loop, answers = slow_loop(loop) if isinstance(loop, str) else loop, []
    for e in range(len(episodes)):
        one = episodes[e : e + 1]
        parts = {"unlabeled": None if one.unlabeled is None else one.unlabeled[0]}
        parts |= {name: getattr(one, name) for name in BASE}
        taken = parts.keys() & inspect.signature(loop).parameters.keys()
        more = {name: part.double().numpy() for name in taken if (part := parts[name]) is not None}
        support, labels, query = one.support[0].double(), one.support_labels[0], one.query[0].double()
        answers.append(loop(support.numpy(), labels.numpy(), query.numpy(), one.n_way, **more, **arguments))
    return torch.from_numpy(np.stack(answers))


def shortened(name: str, steps: int) -> dict[str, int]:
    """Arguments with which a method that takes more steps takes so many; none for other methods."""
    counts = (declared for key, declared in declarations(METHODS[name]).items() if key in ("n_iter", "n_epochs"))
    return {declared.name: steps for declared in counts if declared.default > steps}
