"""What a run tells while it goes: a CSV file, TensorBoard, and a bar or plain lines on the terminal."""

import csv
import io
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

from protoadapt.core.files import written_whole


class Speed(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:,.0f} images/s" if task.speed else "")


class Watch:
    """Writes nothing unless `main`: one process of several speaks. Plain lines where the output is no terminal."""

    def __init__(self, run: Path, epochs: int, rows: int, main: bool = True, progress: bool = True):
        """`rows`: pictures that pass in the whole run, the bar's length."""
        self.run, self.epochs, self.main = run, epochs, main
        self.console = Console(file=sys.stderr, quiet=not (main and progress), highlight=False)
        columns = (TextColumn("{task.description}"), BarColumn(), Speed(), TimeRemainingColumn())
        shown = main and progress and self.console.is_terminal
        self.bar = Progress(*columns, console=self.console, disable=not shown, transient=True)
        self.task = self.bar.add_task("", total=rows)
        self.board = self._board() if main else None

    def _board(self) -> Any:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            self.say("TensorBoard is not installed: the log is in log.csv only")
            return None
        return SummaryWriter(str(self.run / "tensorboard"))

    def __enter__(self) -> "Watch":
        self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()
        if self.board:
            self.board.close()

    def say(self, text: str) -> None:
        if self.main:
            self.console.print(text, markup=False, soft_wrap=True)

    def epoch_starts(self, epoch: int, rows: int) -> None:
        self.bar.update(self.task, completed=rows, description=f"epoch {epoch + 1}/{self.epochs}")

    def step(self, rows: int) -> None:
        self.bar.advance(self.task, rows)

    def epoch_ends(self, history: list[dict[str, Any]], left: float) -> None:
        """Tell of the last row of the history, and write the whole history: a resumed run never repeats a line."""
        if not self.main:
            return
        row = history[-1]
        names = list(dict.fromkeys(name for one in history for name in one))
        text = io.StringIO()
        writer = csv.DictWriter(text, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(history)
        with written_whole(self.run / "log.csv") as partial:
            partial.write_text(text.getvalue())
        if self.board:
            for name, value in row.items():
                if name != "epoch":
                    self.board.add_scalar(name, value, row["epoch"])
            self.board.flush()
        self.say(line(row, self.epochs, left))


def line(row: dict[str, Any], epochs: int, left: float) -> str:
    """One epoch in one line."""
    skip = ("epoch", "step", "lr", "seconds", "images_per_second", "loss", "accuracy")
    parts = [f"{n} {v:.3f}" for n, v in row.items() if n not in skip and not n.startswith("val_")]
    text = f"epoch {row['epoch']}/{epochs}  " + "  ".join(parts)
    text += f"  base {row['accuracy']:.1f} %  {row['images_per_second']:,.0f} images/s  {clock(left)} left"
    if "val_score" in row:
        text += "  |  validation"
        for method in ("cipa", "protonet"):
            text += f"  {method} {row[f'val_{method}_1']:.2f} / {row[f'val_{method}_5']:.2f}"
    return text


def clock(seconds: float) -> str:
    hours, rest = divmod(round(seconds), 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60}:{rest % 60:02d}"
