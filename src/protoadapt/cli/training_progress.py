"""Training events on the terminal: a bar of all images, and one line per epoch, which log files get too."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from protoadapt.cli.progress import bars

if TYPE_CHECKING:
    from protoadapt.training import Event

NOT_PRINTED = ("epoch", "step", "lr", "seconds", "images_per_second", "loss", "accuracy")


@contextmanager
def training_progress() -> "Iterator[Callable[[Event], None]]":
    """The callback `on_event` of `train`."""
    with bars() as report:
        before = None

        def show(event: "Event") -> None:
            nonlocal before
            if event.kind == "note":
                print(event.text, file=sys.stderr, flush=True)
            elif event.kind == "epoch ends":
                print(epoch_line(event.record, event.epochs, event.seconds_left), file=sys.stderr, flush=True)
            else:
                before = event.images if before is None else before
                report("images", event.images, event.total_images, event.images - before)

        yield show


def epoch_line(record: Mapping[str, Any], epochs: int, seconds_left: float) -> str:
    """ "epoch 3/40  ce 0.812  base 71.2 %  9,100 images/s  3:12 left  |  validation  cipa 72.10 / 81.35 …" """
    parts = [f"{n} {v:.3f}" for n, v in record.items() if n not in NOT_PRINTED and not n.startswith("val_")]
    text = f"epoch {record['epoch']}/{epochs}  " + "  ".join(parts)
    speed = f"{record['images_per_second']:,.0f} images/s"
    text += f"  base {record['accuracy']:.1f} %  {speed}  {clock(seconds_left)} left"
    if "val_score" in record:
        text += "  |  validation"
        for method in ("cipa", "protonet"):
            text += f"  {method} {record[f'val_{method}_1']:.2f} / {record[f'val_{method}_5']:.2f}"
    return text


def clock(seconds: float) -> str:
    """59 → "0:59", 3,661 → "1:01:01"."""
    hours, rest = divmod(round(seconds), 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60}:{rest % 60:02d}"
