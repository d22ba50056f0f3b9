"""The Ray engine: the same parts on a cluster, each made by an actor that decodes and embeds.

Ray Data does the scheduling, the retries and the scaling. The cluster is the one that RAY_ADDRESS names, or a local one
for the time of the run. Manifest, pictures and output must be visible to every machine.
"""

import logging
import os
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from protoadapt.core.errors import UserError, install
from protoadapt.core.threads import ahead
from protoadapt.vision.pictures.formats import quiet_pillow
from protoadapt.vision.shards.make import Job


def make_on_ray(job: Job, numbers: Sequence[int], workers: int | None) -> Iterator[int]:
    """Yields the number of each of these shards when its part is written, in any order.

    `workers`: how many actors, each with a core or a GPU of its own; the cluster's own limit by default.
    """
    ray, ours = _connected(workers)
    try:
        unit = "CPU" if job.device == "cpu" else "GPU"
        there = {name: int(ray.cluster_resources().get(name, 0)) for name in ("CPU", "GPU")}
        if not there[unit]:
            raise UserError(f"the Ray cluster has no {unit}: use --device {'cpu' if unit == 'GPU' else 'cuda'}")
        cores = 1 if unit == "CPU" else max(1, there["CPU"] // there["GPU"])  # which decode for a GPU
        rows = ray.data.from_items([{"number": number} for number in numbers], override_num_blocks=len(numbers)).map(
            _Maker,
            fn_constructor_kwargs={"job": job, "threads": cores},
            compute=ray.data.ActorPoolStrategy(min_size=1, max_size=workers or there[unit]),
            num_cpus=cores,
            num_gpus=int(unit == "GPU"),
        )
        for row in rows.iter_rows():
            if row["error"]:
                raise UserError(row["error"])
            yield int(row["number"])
    finally:
        if ours:
            ray.shutdown()


class _Maker:
    """An actor: it loads the network once."""

    def __init__(self, job: Job, threads: int):
        if job.device == "cpu":
            torch.set_num_threads(1)
        self.job = job
        self.threads = threads
        self.network = job.network()

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        number = int(row["number"])
        try:
            decoded = ahead(self.job.decode, self.job.places(number), 2 * self.threads, self.threads)
            with quiet_pillow():
                self.job.write(number, self.job.embed(self.network, decoded))
        except (UserError, OSError) as error:  # as text: Ray would wrap it in a traceback
            return {"number": number, "error": str(error)}
        return {"number": number, "error": ""}


def _connected(workers: int | None) -> tuple[Any, bool]:
    """Ray, connected to a cluster or started here, and whether it has to be stopped again."""
    for name, value in {"RAY_USAGE_STATS_ENABLED": "0", "RAY_BACKEND_LOG_LEVEL": "fatal"}.items():
        os.environ.setdefault(name, value)
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise UserError(f"--engine ray needs Ray: {install('ray')}, or use --engine local") from error
    ours = not ray.is_initialized()
    if ours:
        cpus = max(2, workers or os.cpu_count() or 1)  # an actor that embeds and a task that decodes
        local: dict[str, Any] = {} if os.environ.get("RAY_ADDRESS") else {"include_dashboard": False, "num_cpus": cpus}
        ray.init(log_to_driver=False, logging_level=logging.ERROR, **local)
    ray.data.DataContext.get_current().enable_progress_bars = False  # the command shows its own
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    return ray, ours
