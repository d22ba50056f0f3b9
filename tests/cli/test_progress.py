"""Bars: drawn on a terminal only; log files get plain lines now and then, where a job is long, or nothing."""

import io
import itertools
import sys

import pytest

from protoadapt.cli import progress as module
from protoadapt.cli.progress import bars, progress, progress_line


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch):
    """Time that goes on by ten seconds whenever it is read."""
    ticks = itertools.count(0, 10)
    monkeypatch.setattr(module.time, "monotonic", lambda: float(next(ticks)))


def test_a_line_tells_rate_and_time_left():
    assert progress_line("pictures", 1500, 10_000, 1000, 20.0) == "1,500 of 10,000 pictures, 50/s, 0:02:50 left"
    assert progress_line("pictures", 3, 0, 3, 2.0) == "3 pictures, 1.5/s"
    assert progress_line("pictures", 0, 5, 0, 0.0) == "0 of 5 pictures"


def test_a_terminal_shows_a_bar_per_stage(monkeypatch):
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with bars() as report:
        report("pictures embedded", 2, 4)
        report("thumbnails", 1, 3)
    assert "2 of 4 pictures embedded" in terminal.getvalue()
    assert "1 of 3 thumbnails" in terminal.getvalue()
    with progress("episodes", 10) as done:
        done(7)
    assert "7 of 10 episodes" in terminal.getvalue()


def test_a_log_file_gets_nothing_or_now_and_then_a_line(capsys, clock):
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


def test_what_an_earlier_run_made_does_not_count_for_the_rate(capsys, clock):
    with bars(lines=True) as report:
        for done in range(1, 5):
            report("pictures", 500 + 10 * done, 1000, 10 * done)
    assert capsys.readouterr().err == "540 of 1,000 pictures, 1/s, 0:07:40 left\n"
