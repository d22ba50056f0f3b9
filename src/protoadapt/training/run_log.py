"""The progress of a run and its log: a CSV file, and events for a callback. Nothing is drawn here."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from protoadapt.core.files import csv_text, write_text


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


@dataclass(frozen=True)
class Event:
    """What `train` reports to its callback while it runs.

    kind          "epoch starts", "step", "epoch ends", or "note"
    epoch         epochs finished so far, of `epochs`
    images        rows that passed forward and backward so far, of `total_images`
    record        of an epoch that ends: its line of log.csv (losses, accuracy, learning rate, speed, validation)
    seconds_left  of an epoch that ends: training time left at its speed
    text          of a note: one sentence for the user
    """

    kind: Literal["epoch starts", "step", "epoch ends", "note"]
    epoch: int
    epochs: int
    images: int
    total_images: int
    record: Mapping[str, Any] = field(default_factory=dict)
    seconds_left: float = 0.0
    text: str = ""


OnEvent = Callable[[Event], None]


class RunLog:
    """Writes RUN/log.csv and reports events; does nothing unless `main`, one process of several."""

    def __init__(self, run: Path, epochs: int, total_images: int, on_event: OnEvent | None = None, main: bool = True):
        self.run, self.epochs, self.total_images, self.main = run, epochs, total_images, main
        self.on_event = on_event if main else None
        self.epoch = self.images = 0

    def _report(self, kind: Any, **details: Any) -> None:
        if self.on_event:
            self.on_event(Event(kind, self.epoch, self.epochs, self.images, self.total_images, **details))

    def note(self, text: str) -> None:
        self._report("note", text=text)

    def epoch_starts(self, epoch: int, images: int) -> None:
        self.epoch, self.images = epoch, images
        self._report("epoch starts")

    def step(self, images: int) -> None:
        self.images += images
        self._report("step")

    def epoch_ends(self, history: list[dict[str, Any]], seconds_left: float) -> None:
        """Write the whole history, so that a resumed run never repeats a line, and report its last record."""
        record = history[-1]
        self.epoch = record["epoch"]
        if self.main:
            names = list(dict.fromkeys(name for one in history for name in one))
            rows = [names, *([one.get(name, "") for name in names] for one in history)]
            write_text(self.run / "log.csv", csv_text(rows))
        self._report("epoch ends", record=record, seconds_left=seconds_left)
