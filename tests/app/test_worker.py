"""The one thread that computes: always the same, with half of the cores, which takes none from other threads."""

import threading

import pytest
import torch

from protoadapt.app.worker import computed
from protoadapt.core.errors import UserError
from protoadapt.core.threads import cores


def test_whoever_asks_one_thread_computes():
    found: list[int] = []
    asking = [threading.Thread(target=lambda: found.append(computed(threading.get_ident))) for _ in range(8)]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join()
    assert len(found) == 8
    assert set(found) == {computed(threading.get_ident)}
    assert threading.get_ident() not in found


def test_half_of_the_cores_take_part_and_other_threads_keep_theirs():
    before = torch.get_num_threads()
    assert computed(torch.get_num_threads) == max(1, cores() // 2)
    product = computed(lambda: torch.ones(300, 300) @ torch.ones(300, 300))
    assert torch.equal(product, torch.full((300, 300), 300.0))
    assert torch.get_num_threads() == before


def test_what_fails_there_fails_for_who_asked():
    def refuse():
        raise UserError("no")

    with pytest.raises(UserError, match="no"):
        computed(refuse)
    assert computed(max, 1, 2) == 2, "and it goes on"
