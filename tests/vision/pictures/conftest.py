from pathlib import Path

import pytest
from helpers.small_pictures import class_folders


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A user's folder: eight classes of three pictures."""
    return class_folders(tmp_path / "mine", [f"kind{i}" for i in range(8)], 3)
