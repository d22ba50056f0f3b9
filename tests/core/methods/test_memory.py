"""The estimate of an episode's memory against the tensors that a method really holds."""

import weakref

import pytest
import torch
from helpers.cases import clouds, shortened
from torch.utils._python_dispatch import TorchDispatchMode

from protoadapt.core.evaluate import episode_bytes
from protoadapt.core.methods import METHODS, family, twin


class Peak(TorchDispatchMode):
    """Counts the bytes of all tensors that are alive, and the most there were at once."""

    def __init__(self):
        super().__init__()
        self.now = self.most = 0
        self.known = set()

    def __torch_dispatch__(self, function, kinds, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        for one in out if isinstance(out, (tuple, list)) else [out]:
            if isinstance(one, torch.Tensor):
                self._count(one.untyped_storage())
        return out

    def _count(self, storage):
        key, size = storage._cdata, storage.nbytes()
        if key not in self.known:
            self.known.add(key)
            self.now += size
            self.most = max(self.most, self.now)
            weakref.finalize(storage, self._free, key, size)

    def _free(self, key, size):
        self.known.discard(key)
        self.now -= size


ONE_ROUND = {"pt_map": {"n_iter": 1}}


def peak(name, episodes):
    counter = Peak()
    with torch.no_grad(), counter:
        METHODS[name](episodes, **(shortened(name, 2) | ONE_ROUND.get(name, {})))
    return counter.most


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize(
    "shape",
    [{"way": 5, "queries": 40, "dim": 128}, {"way": 20, "queries": 100, "dim": 64}, {"queries": 300, "dim": 32}],
    ids=str,
)
def test_the_estimate_is_an_upper_bound(name, shape, monkeypatch):
    """Per episode, beyond what one more episode adds to the table of rows."""
    monkeypatch.setattr(twin, "takes", lambda episodes: False)  # the compiled loop holds next to nothing
    monkeypatch.setattr(family, "SINKHORN_ROUNDS", 2)  # a round holds as much as any other
    shape = {"shots": 1, "dtype": torch.float32, "way": 3, **shape}
    few, many = (peak(name, clouds(episodes=e, **shape)[0]) for e in (2, 6))
    table = (shape["way"] + shape["queries"]) * shape["dim"] * 4  # per-row work is done once for the table
    measured = (many - few) / 4
    estimate = episode_bytes(METHODS[name], shape["way"] + shape["queries"], shape["way"], shape["dim"])
    assert measured <= estimate + 2 * table
