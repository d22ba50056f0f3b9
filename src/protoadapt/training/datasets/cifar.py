"""CIFAR-100 (Krizhevsky, 2009), which CIFAR-FS (Bertinetto et al., ICLR 2019) and FC100 (Oreshkin et al., NeurIPS 2018)
split by class: all 600 pictures per class, from the published training and test halves."""

from pathlib import Path

import numpy as np

from protoadapt.core.errors import UserError
from protoadapt.training.datasets.folders import packed_fingerprint
from protoadapt.training.datasets.unpickle import read_table, text
from protoadapt.vision.pictures.decode import Picture
from protoadapt.vision.pictures.split import SplitSource


def pickles(root: Path, split: str, classes: list[str], crop: str) -> SplitSource | None:
    """The official files train, test and meta of cifar-100-python."""
    files = [root / name for name in ("meta", "train", "test")]
    if not all(file.is_file() for file in files):
        return None
    return SplitSource(root, packed_fingerprint(files), lambda: _read(root, set(classes)), classes)


def _read(root: Path, wanted: set[str]) -> list[Picture]:
    names = [text(name) for name in _column(read_table(root / "meta"), "fine_label_names", root / "meta")]
    pictures: list[Picture] = []
    for half in ("train", "test"):
        path = root / half
        table = read_table(path)
        data, labels, files = (_column(table, key, path) for key in ("data", "fine_labels", "filenames"))
        if not isinstance(data, np.ndarray) or data.dtype != np.uint8 or data.shape != (len(labels), 3072):
            raise UserError(f"{path} does not hold {len(labels)} rows of 3,072 bytes: download cifar-100-python again")
        tiles = data.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        try:
            pictures += [
                Picture(f"{half}/{text(file)}", names[label], tile)
                for tile, label, file in zip(tiles, labels, files, strict=True)
                if names[label] in wanted
            ]
        except (IndexError, TypeError, ValueError) as error:
            raise UserError(f"{path} has labels or names that do not fit ({error}): download it again") from error
    return pictures


def _column(table: dict, key: str, path: Path) -> list:
    if not isinstance(table.get(key), (list, np.ndarray)):
        raise UserError(f"{path} has no list {key!r}, only {sorted(table)}: download cifar-100-python again")
    return table[key]
