"""Shared by all tests: the slow references are importable as `reference`, and every test starts from the same seed."""

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def _fixed_seed():
    torch.manual_seed(0)
