import pytest
import torch


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # as in the processes that are killed: sums are split the same way
    yield
    torch.set_num_threads(before)
