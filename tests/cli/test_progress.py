"""Bars: drawn on a terminal only; log files get plain lines now and then, where a job is long, or nothing."""

import io
import itertools
import sys

import pytest

from protoadapt.cli import progress as module
from protoadapt.cli.progress import bars, epoch_line, progress_line, training_progress
from protoadapt.training import Event


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def ten_seconds(monkeypatch):
    """Time that goes on by ten seconds whenever it is read."""
    ticks = itertools.count(0, 10)
    monkeypatch.setattr(module.time, "monotonic", lambda: float(next(ticks)))


def test_a_line_tells_rate_and_time_left():
    assert progress_line("pictures", 1500, 10_000, 50.0) == "1,500 of 10,000 pictures, 50/s, 0:02:50 left"
    assert progress_line("pictures", 3, 0, 1.5) == "3 pictures, 1.5/s"
    assert progress_line("pictures", 0, 5, 0.0) == "0 of 5 pictures"


def test_a_terminal_shows_a_bar_per_stage(monkeypatch):
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with bars() as report:
        report("pictures embedded", 2, 4)
        report("thumbnails", 1, 3)
    assert "2 of 4 pictures embedded" in terminal.getvalue()
    assert "1 of 3 thumbnails" in terminal.getvalue()


def test_a_log_file_gets_nothing_or_now_and_then_a_line(capsys, ten_seconds):
    with bars() as report:
        for done in range(20):
            report("pictures", done, 20)
    assert capsys.readouterr() == ("", "")
    with bars(lines=True) as report:
        for done in range(1, 11):
            report("pictures", 10 * done, 1000)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [  # every 40 s here: the first reading that is more than 30 s after the last line
        "40 of 1,000 pictures, 1/s, 0:16:00 left",
        "80 of 1,000 pictures, 1/s, 0:15:20 left",
    ]


def test_what_an_earlier_run_made_does_not_count_for_the_rate(capsys, ten_seconds):
    with bars(lines=True) as report:
        for done in range(1, 5):
            report("pictures", 500 + 10 * done, 1000)
    assert capsys.readouterr().err == "540 of 1,000 pictures, 1/s, 0:07:40 left\n"


RECORD = {"epoch": 3, "step": 30, "loss": 1.5, "ce": 1.25, "hct": 0.25, "accuracy": 71.23, "lr": 0.1}
RECORD |= {"images_per_second": 9100.4, "seconds": 12.0}
SCORES = {"val_cipa_1": 72.1, "val_cipa_5": 81.351, "val_protonet_1": 60.0, "val_protonet_5": 79.0, "val_score": 76.7}


def test_an_epoch_is_one_line():
    plain = "epoch 3/40  ce 1.250  hct 0.250  base 71.2 %  9,100 images/s  0:03:12 left"
    assert epoch_line(RECORD, 40, 192.4) == plain
    validated = plain + "  |  validation  cipa 72.10 / 81.35  protonet 60.00 / 79.00"
    assert epoch_line(RECORD | SCORES, 40, 192.4) == validated


def test_a_log_file_gets_plain_lines_and_no_bar(capfd):
    with training_progress() as show:
        show(Event("note", 2, 40, 100, 900, text="resuming from step 20 (epoch 3)"))
        show(Event("epoch starts", 2, 40, 100, 900))
        for images in range(110, 200, 10):
            show(Event("step", 2, 40, images, 900))
        show(Event("epoch ends", 3, 40, 190, 900, RECORD, 192.0))
    out, err = capfd.readouterr()
    assert out == ""
    assert err.splitlines() == ["resuming from step 20 (epoch 3)", epoch_line(RECORD, 40, 192.0)]
