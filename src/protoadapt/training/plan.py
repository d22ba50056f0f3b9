"""The plan of an epoch: which pictures are in each batch and all random draws, made before the epoch starts.

Everything is a function of (seed, epoch) for the whole batch; a process takes its slice. So a run does not depend on
the number of processes (except for DropBlock, which each process draws for its own rows), and a stopped epoch
continues with the numbers it would have had.
Axes: T steps, B pictures per step over all processes, b = B / processes.
"""

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from protoadapt.core.errors import UserError
from protoadapt.training.augment.strong import draw_strong
from protoadapt.training.augment.weak import draw_weak
from protoadapt.training.config import Phase, TrainConfig


@dataclass(frozen=True)
class Plan:
    """One process's share of an epoch."""

    first: np.ndarray  # (T, b) pictures
    weak: dict[str, Tensor]  # (T·b, …) draws of their weak views
    seeds: list[int]  # T seeds of DropBlock and of the noise of heads
    layers: list[int]  # T mixing layers
    lams: Tensor  # (T) λ
    second: np.ndarray | None = None  # (T, b) pictures to mix with
    view: dict[str, Tensor] = field(default_factory=dict)  # (T·b, …) draws of their strong (or weak) views

    def __len__(self) -> int:
        return len(self.first)


def make_plan(
    config: TrainConfig, epoch: int, labels: np.ndarray, n_layers: int, rank: int = 0, processes: int = 1
) -> Plan:
    """The share of process `rank` in an epoch (from 0). labels (N): of base pictures · n_layers: backbone's stages."""
    needs = config.phase(epoch).needs
    rng = np.random.default_rng([config.seed, epoch])
    order = episodes(config, labels, rng) if needs.episodes else batches(config, labels, rng)
    steps, batch = order.shape
    multiple = processes * (config.rotate_every if needs.rotated else 1)
    if batch % multiple or (needs.episodes and config.episode_batch % processes):
        setting = f"episode_batch {config.episode_batch}" if needs.episodes else f"batch {config.batch}"
        raise UserError(f"{setting} cannot be split over {processes} processes: choose a multiple of {multiple}")
    share = slice(rank * batch // processes, (rank + 1) * batch // processes)
    generator = torch.Generator().manual_seed(int(rng.integers(2**62)))

    def slices(draws: dict[str, Tensor]) -> dict[str, Tensor]:
        return {name: d.unflatten(0, (steps, batch))[:, share].flatten(0, 1) for name, d in draws.items()}

    own = np.random.default_rng([config.seed, epoch, rank + 1])  # numpy ignores a trailing 0
    seeds = [int(own.integers(2**62)) for _ in range(steps)]
    weak = slices(draw_weak(steps * batch, config.stored_side, generator, **config.weak_options))
    if not needs.partner:
        return Plan(order[:, share], weak, seeds, [0] * steps, torch.ones(steps))
    at = config.mixing_layers or tuple(range(n_layers + 1))
    if not set(at) <= set(range(n_layers + 1)):
        raise UserError(f"mixing_layers are {at}: {config.backbone} has the layers 0 to {n_layers}")
    layers = rng.choice(at, steps).tolist()
    lams = torch.from_numpy(rng.beta(config.alpha, config.alpha, steps)).float()
    partner = rng.permuted(order, axis=1)
    if needs.partner == "strong":
        view = draw_strong(steps * batch, config.size, generator, stored=config.stored_side, **config.weak_options)
    else:
        view = draw_weak(steps * batch, config.stored_side, generator, **config.weak_options)
    return Plan(order[:, share], weak, seeds, layers, lams, partner[:, share], slices(view))


def batches(config: TrainConfig, labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """(T, B): every picture once, shuffled; pictures that do not fill the last batch are left out this epoch."""
    if len(labels) < config.batch:
        raise UserError(f"batch is {config.batch} but there are {len(labels)} base pictures: lower it")
    steps = len(labels) // config.batch
    return rng.permutation(len(labels))[: steps * config.batch].reshape(steps, config.batch)


def episodes(config: TrainConfig, labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """(T, E·W·(K+Q)): few-shot episodes, class by class, the K support pictures of each class first."""
    each = config.shot + config.query
    pools = [np.flatnonzero(labels == c) for c in np.unique(labels)]
    if config.way > len(pools) or min(map(len, pools)) < each:
        raise UserError(
            f"an episode takes {each} pictures of {config.way} classes each, but there are {len(pools)} base classes "
            f"and the smallest has {min(map(len, pools))} pictures: lower way, shot or query"
        )
    tasks = [
        [rng.choice(pools[c], each, replace=False) for c in rng.choice(len(pools), config.way, replace=False)]
        for _ in range(config.episodes // config.episode_batch * config.episode_batch)
    ]
    return np.array(tasks).reshape(-1, config.episode_batch * config.way * each)


def rows_per_epoch(config: TrainConfig, phase: Phase, n_images: int) -> int:
    """Rows that pass forward and backward in one epoch of a phase."""
    if phase.needs.episodes:
        steps = config.episodes // config.episode_batch
        pictures = config.episode_batch * config.way * (config.shot + config.query)
        return steps * phase.needs.rows(pictures, config.rotate_every)
    return n_images // config.batch * phase.needs.rows(config.batch, config.rotate_every)
