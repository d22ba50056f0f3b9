"""Work that threads do ahead."""

import resource
import threading
from pathlib import Path

import pytest

from protoadapt.core.threads import ahead


def test_threads_work_ahead_in_order_and_not_too_far():
    started = []

    def work(item):
        started.append(item)
        return item

    for taken, item in enumerate(ahead(work, range(100), 5)):
        assert item == taken
        assert len(started) <= taken + 1 + 5
    assert sorted(started) == list(range(100))


def test_no_more_threads_than_asked_for_and_none_left_behind():
    seen = set()

    def work(item):
        seen.add(threading.get_ident())
        if item == 3:
            raise ValueError("the fourth")
        return item

    before, done = threading.active_count(), []
    with pytest.raises(ValueError, match="the fourth"):
        done.extend(ahead(work, range(100), 5, threads=1))
    assert (done, len(seen), threading.active_count()) == ([0, 1, 2], 1, before)


def test_no_room_for_threads_is_said_before_they_start():
    """One that dies while it starts would be waited for."""
    before, pages = resource.getrlimit(resource.RLIMIT_AS), int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (20 << 20), before[1]))
    try:
        with pytest.raises(MemoryError, match="no room for 4 threads"):
            next(ahead(str, [1], 1, threads=4))
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
