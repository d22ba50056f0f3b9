"""`label` on a folder of coloured pictures."""

import pytest

from protoadapt.labeling import label


@pytest.fixture
def named(folder, model):
    """named(support, images, out, …): `label` on the folder's own places by default."""

    def run(support=("support",), images="images", out="out", **options):
        return label([folder / one for one in support], folder / images, folder / out, model=model, **options)

    return run
