"""What protects a run: its progress, losses that are not finite, requests to stop, configs that changed."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from lightning_fabric import Fabric


@dataclass
class State:
    """The progress of a run; saved in every checkpoint, so field names are part of the file format."""

    step: int = 0  # steps done
    epoch: int = 0  # epochs done
    within: int = 0  # steps done of the current epoch
    seconds: float = 0.0  # training time, without validation and checkpoints
    images: int = 0  # rows that passed forward and backward
    sums: dict[str, float] = field(default_factory=dict)  # of the logged values in the current epoch
    history: list[dict[str, Any]] = field(default_factory=list)  # one record per epoch
    best: dict[str, Any] | None = None  # {"step", "epoch", "score", …} of the best validation


class Tally:
    """Sums of the logged values and the first step whose loss is not finite, on the device until they are read."""

    def __init__(self, sums: dict[str, float], device: torch.device):
        self.names = list(sums)
        self.total = torch.tensor(list(sums.values()), device=device) if sums else None
        self.bad = torch.full((), torch.iinfo(torch.int64).max, device=device)

    def add(self, parts: dict[str, Tensor], step: int) -> None:
        """Add the values of one step, without waiting for the device."""
        values = torch.stack([part.detach().float() for part in parts.values()])
        self.names = list(parts)
        self.total = values if self.total is None else self.total + values
        self.bad = torch.where(torch.isfinite(values).all(), self.bad, self.bad.clamp_max(step))

    def sums(self) -> dict[str, float]:
        """Name → sum. Waits for the device."""
        return {} if self.total is None else dict(zip(self.names, self.total.tolist()))

    def first_bad(self, fabric: "Fabric") -> int | None:
        """The first step with a loss that is not finite, over all processes, so that they stop together; or None."""
        bad = int(self.bad if fabric.world_size == 1 else fabric.all_reduce(self.bad, reduce_op="min"))  # type: ignore[arg-type]
        return None if bad == torch.iinfo(torch.int64).max else bad


def differences(saved: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """'name=value (now value)' of every setting that differs from the checkpoint's."""
    pairs = [(saved.get(part, {}), now[part]) for part in ("train", "model")]
    pairs.append(({"base pictures": saved.get("base_images")}, {"base pictures": now["base_images"]}))
    return [
        f"{name}={before.get(name)!r:.80} (now {after.get(name)!r:.80})"
        for before, after in pairs
        for name in {**before, **after}
        if before.get(name) != after.get(name)
    ]


@contextmanager
def stop_requested() -> Iterator[threading.Event]:
    """An event that SIGTERM or Ctrl-C sets, so that the loop can save a checkpoint; a second Ctrl-C ends at once.

    After Ctrl-C the caller must not continue as if training were finished, so KeyboardInterrupt is raised at the end.
    """
    stop, interrupted = threading.Event(), threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def first_ctrl_c(*_: object) -> None:
        signal.signal(signal.SIGINT, before[signal.SIGINT])
        interrupted.set()
        stop.set()

    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    if before[signal.SIGINT] is signal.default_int_handler:  # not where it is ignored or another handler is set
        signal.signal(signal.SIGINT, first_ctrl_c)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if interrupted.is_set():
        raise KeyboardInterrupt
