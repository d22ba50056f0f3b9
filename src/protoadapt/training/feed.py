"""Pictures to the device: resident there when they fit, else read ahead of the step that uses them."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from protoadapt.core.threads import ahead
from protoadapt.training.augment.strong import apply_strong
from protoadapt.training.augment.weak import apply_weak
from protoadapt.training.plan import Plan

RESIDENT_SHARE = 0.5  # of the device's free memory: pictures that take no more stay there
_AHEAD = 4  # steps that are read ahead


class Feed:
    """Pictures (N, 3, H, H) uint8 and labels (N) of one split; `batches` makes the views of each step.

    `side` (None: H) is that of the views.
    """

    def __init__(
        self, pixels: Any, labels: np.ndarray, device: torch.device, side: int | None = None, compiled: bool = False
    ):
        """compiled: the many small operations of a view are fused into a few kernels."""
        self.pixels = pixels
        self.device = device
        self.side = side
        self.labels = torch.from_numpy(np.asarray(labels, dtype=np.int64)).to(device)
        self.on_device = resident(pixels, device)
        self.weak: Callable[..., Tensor] = torch.compile(apply_weak, dynamic=False) if compiled else apply_weak
        self.strong: Callable[..., Tensor] = torch.compile(apply_strong, dynamic=False) if compiled else apply_strong

    def batches(self, plan: Plan, start: int = 0) -> Iterator[tuple[dict[str, Tensor], dict[str, Any]]]:
        """(batch, draw) of each step of the plan from step `start`, as `Learner.forward` takes them."""

        def on_device(draws: dict[str, Tensor]) -> dict[str, Tensor]:
            return {k: d.to(self.device).unflatten(0, plan.first.shape) for k, d in draws.items()}

        both = plan.first if plan.second is None else np.concatenate([plan.first, plan.second], 1)
        b = plan.first.shape[1]
        weak, view = on_device(plan.weak), on_device(plan.view)
        lams = plan.lams.to(self.device)
        index = torch.from_numpy(both).to(self.device)
        partner = self.strong if "op" in plan.view else self.weak
        for t, images in zip(range(start, len(plan)), self.rows(both[start:], index[start:])):
            labels = self.labels[index[t]]
            first = self.weak(images[:b], {k: d[t] for k, d in weak.items()}, self.side)
            batch = {"weak": first, "labels": labels[:b]}
            if plan.second is not None:
                batch["partner"] = partner(images[b:], {k: d[t] for k, d in view.items()}, self.side)
                batch["partner_labels"] = labels[b:]
            yield batch, {"layer": plan.layers[t], "lam": lams[t], "seed": plan.seeds[t]}

    def rows(self, wanted: np.ndarray, index: Tensor) -> Iterator[Tensor]:
        """The pictures (R, 3, H, H) of each row of `wanted` (T, R) in turn; `index` is the same on the device."""
        if self.on_device is not None:
            for row in index:
                yield self.on_device[row]
            return
        for chunk, place in read_ahead(self.pixels, wanted, pin=self.device.type == "cuda"):
            yield chunk.to(self.device, non_blocking=True)[place.to(self.device, non_blocking=True)]


def resident(pixels: Any, device: torch.device, chunk: int = 8192) -> Tensor | None:
    """The pictures on a GPU where they fit, copied in chunks, so that a memory map never has to fit into host memory.

    On the CPU the page cache of the operating system does the same.
    """
    if device.type != "cuda" or pixels.nbytes > RESIDENT_SHARE * torch.cuda.mem_get_info(device)[0]:
        return None
    whole = torch.empty(pixels.shape, dtype=torch.uint8, device=device)
    for start in range(0, len(pixels), chunk):
        whole[start : start + chunk] = torch.from_numpy(np.array(pixels[start : start + chunk]))
    return whole


def read_ahead(pixels: Any, wanted: np.ndarray, pin: bool) -> Iterator[tuple[Tensor, Tensor]]:
    """For each row of `wanted` (T, R): its distinct pictures, read in file order by a thread, and the index (R) of each
    wanted one among them."""

    def read(row: np.ndarray) -> tuple[Tensor, Tensor]:
        distinct, place = np.unique(row, return_inverse=True)
        chunk = torch.from_numpy(np.array(pixels[distinct]))
        where = torch.from_numpy(place.reshape(-1))
        return (chunk.pin_memory(), where.pin_memory()) if pin else (chunk, where)

    return ahead(read, wanted, _AHEAD, threads=1)
