"""The Ray engine: the same parts on a cluster; tasks decode on its CPUs, actors embed on its GPUs.

On a cluster of CPUs alone Ray lets the actors do both, which saves sending pixels around. Ray Data does the scheduling,
the retries and the scaling. The cluster is the one that RAY_ADDRESS names, or a local one for the time of the run.
Manifest, pictures and output must be visible to every machine.
"""

import json
import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from protoadapt.core.errors import UserError, install
from protoadapt.vision import networks
from protoadapt.vision.shards.make import Decoded, Job, Made, embed_decoded, make_part


def make_on_ray(job: Job, numbers: Sequence[int], workers: int | None) -> Iterator[Made]:
    """Yields the part of each of these shards when it is done, in any order.

    `workers`: how many tasks decode at once and, on CPUs, how many actors embed; the cluster's own limit by default.
    """
    with _cluster(workers) as ray:
        unit = "CPU" if job.device == "cpu" else "GPU"
        there = int(ray.cluster_resources().get(unit, 0))
        if not there:
            raise UserError(f"the Ray cluster has no {unit}: use --device {'cpu' if unit == 'GPU' else 'cuda'}")
        actors = {"num_gpus": 1, "num_cpus": 0} if unit == "GPU" else {"num_cpus": 1}
        most = there if unit == "GPU" else workers or max(1, there - 1)
        rows = (
            ray.data.from_items([{"number": number} for number in numbers], override_num_blocks=len(numbers))
            .map(_decode, fn_kwargs={"job": job}, num_cpus=1, compute=ray.data.TaskPoolStrategy(workers))
            .map(
                _Embed,
                fn_constructor_kwargs={"job": job},
                compute=ray.data.ActorPoolStrategy(min_size=1, max_size=most),
                **actors,
            )
        )
        for row in rows.iter_rows():
            if row["error"]:
                raise UserError(row["error"])
            yield Made(int(row["number"]), int(row["pictures"]), int(row["broken"]))


def _decode(row: dict[str, Any], job: Job) -> dict[str, Any]:
    try:
        batches = list(job.decode_all(int(row["number"])))
        errors = json.dumps([list(batch.errors.items()) for batch in batches])
        return {**row, "pixels": np.stack([batch.pixels for batch in batches]), "errors": errors, "error": ""}
    except (UserError, OSError) as error:  # as text: Ray would wrap it in a traceback
        return {**row, "pixels": np.zeros((0, 0), np.uint8), "errors": "[]", "error": str(error)}


class _Embed:
    """An actor: it loads the network once."""

    def __init__(self, job: Job):
        if job.device == "cpu":
            torch.set_num_threads(1)
        self.job = job
        self.network, self.metadata = networks.load(job.model, job.device, job.engine)

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        made, error = Made(int(row["number"]), 0, 0), row["error"]
        if not error:
            batches = map(Decoded, row["pixels"], map(dict, json.loads(row["errors"])))
            embedded = embed_decoded(batches, self.network, self.metadata, self.job.views)
            try:
                made = make_part(self.job, made.number, embedded, self.metadata)
            except (UserError, OSError) as failure:
                error = str(failure)
        return {**made._asdict(), "error": error}


@contextmanager
def _cluster(workers: int | None) -> Iterator[Any]:
    """Connect to Ray, or start it here and stop it again."""
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
    try:
        yield ray
    finally:
        if ours:
            ray.shutdown()
