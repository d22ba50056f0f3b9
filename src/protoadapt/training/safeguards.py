"""What keeps a run from being lost: where it stands, a loss that is no number, a request to stop, a changed config."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from protoadapt.training.config import TrainConfig
from protoadapt.training.fabric import Fabric


@dataclass
class State:
    """Where a run stands."""

    step: int = 0  # steps done
    epoch: int = 0  # epochs done
    within: int = 0  # steps done of the epoch that is under way
    seconds: float = 0.0  # of training, without validation and checkpoints
    images: int = 0  # rows that went forward and backward
    sums: dict[str, float] = field(default_factory=dict)  # of the epoch that is under way
    history: list[dict[str, Any]] = field(default_factory=list)
    best: dict[str, Any] | None = None  # {"step", "epoch", "score", …} of the best validation


class Tally:
    """Sums of the logged parts, and the first step whose loss was not finite, kept on the device until asked for."""

    def __init__(self, sums: dict[str, float], device: torch.device):
        self.names = list(sums)
        self.total = torch.tensor(list(sums.values()), device=device) if sums else None
        self.bad = torch.full((), torch.iinfo(torch.int64).max, device=device)

    def add(self, parts: dict[str, Tensor], step: int) -> None:
        values = torch.stack([part.detach().float() for part in parts.values()])
        self.names = list(parts)
        self.total = values if self.total is None else self.total + values
        self.bad = torch.where(torch.isfinite(values).all(), self.bad, self.bad.clamp_max(step))

    def sums(self) -> dict[str, float]:
        return {} if self.total is None else dict(zip(self.names, self.total.tolist()))

    def first_bad(self, fabric: Fabric) -> int | None:
        """Over all processes, so that they stop together."""
        bad = int(self.bad if fabric.world_size == 1 else fabric.all_reduce(self.bad, reduce_op="min"))  # type: ignore[arg-type]
        return None if bad == torch.iinfo(torch.int64).max else bad


def differences(saved: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """'name=value' of what was otherwise when the checkpoint was written. A setting that did not exist yet had its
    default."""
    out = []
    default = {"train": TrainConfig().to_dict(), "model": {}}
    for part in ("train", "model"):
        before, after = {**default[part], **saved.get(part, {})}, now[part]
        names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
        out += [f"{name}={before.get(name)!r:.80} (now {after.get(name)!r:.80})" for name in names]
    if saved.get("base_images") != now["base_images"]:
        out.append(f"{saved.get('base_images')} base pictures (now {now['base_images']})")
    return out


@contextmanager
def asked_to_stop() -> Iterator[threading.Event]:
    """An event that SIGTERM or Ctrl-C sets, so that the loop can save and leave; a second Ctrl-C ends at once.

    After Ctrl-C nobody's program should go on as if training were done: it ends in KeyboardInterrupt all the same.
    """
    asked, by_hand = threading.Event(), threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def first_ctrl_c(*_: object) -> None:
        signal.signal(signal.SIGINT, before[signal.SIGINT])
        by_hand.set()
        asked.set()

    signal.signal(signal.SIGTERM, lambda *_: asked.set())
    if before[signal.SIGINT] is signal.default_int_handler:  # not where it is ignored, or somebody else's
        signal.signal(signal.SIGINT, first_ctrl_c)
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if by_hand.is_set():
        raise KeyboardInterrupt
