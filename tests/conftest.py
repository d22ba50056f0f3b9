"""Shared by all tests: the slow references are importable as `reference`, and every test starts from the same seed."""

import os
import sys
from pathlib import Path

# Tests run side by side, one a core: threads of their own would only wait for each other. Before torch is loaded.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def _fixed_seed():
    torch.manual_seed(0)
