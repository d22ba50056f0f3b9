"""mini-ImageNet (Vinyals et al., NeurIPS 2016, in the split of Ravi & Larochelle, ICLR 2017) as it is distributed:
pictures with three csv files, one pickle per split, or class folders (see `folders`). And tiered-ImageNet (Ren et al.,
ICLR 2018): class folders of 779,165 pictures."""

import csv
import io
from functools import partial
from pathlib import Path

import numpy as np

from protoadapt.core.errors import UserError
from protoadapt.training.datasets import folders
from protoadapt.training.datasets.unpickle import read_table, text
from protoadapt.vision.pictures.decode import Picture
from protoadapt.vision.pictures.split import SplitSource

OLD_NAMES = {"base": "train", "val": "val", "novel": "test"}

# Of the second family only the published split is read: train_phase_val and train_phase_test hold other pictures.
PICKLES = {
    "base": ("mini-imagenet-cache-train.pkl", "miniImageNet_category_split_train_phase_train.pickle"),
    "val": ("mini-imagenet-cache-val.pkl", "miniImageNet_category_split_val.pickle"),
    "novel": ("mini-imagenet-cache-test.pkl", "miniImageNet_category_split_test.pickle"),
}


def csv_and_images(root: Path, split: str, classes: list[str], crop: str) -> SplitSource | None:
    """images/ with train.csv, val.csv and test.csv, whose rows are filename, label."""
    path = root / f"{OLD_NAMES[split]}.csv"
    if not path.is_file() or not (root / "images").is_dir():
        return None
    content, wanted = folders.read_text(path), set(classes)
    rows = [row[:2] for row in csv.reader(io.StringIO(content)) if len(row) >= 2]
    names = [(f"images/{folders.inside(name, path)}", label) for name, label in rows if label in wanted]
    if not names:
        return None
    files = [folders.File(name, label, folders.state_of(root / name)) for name, label in names]
    return folders.source_of_files(root, files, classes, lists=content)


def pickle_per_split(root: Path, split: str, classes: list[str], crop: str) -> SplitSource | None:
    """mini-imagenet-cache-*.pkl (image_data, class_dict) or miniImageNet_category_split_*.pickle (data, labels)."""
    for path in (root / name for name in PICKLES[split]):
        if path.is_file():
            read = partial(_read, path)
            return SplitSource(root, folders.packed_fingerprint([path]), read)
    return None


def _read(path: Path) -> list[Picture]:
    table = read_table(path)
    data = table.get("image_data", table.get("data"))
    if not isinstance(data, np.ndarray) or data.dtype != np.uint8 or data.ndim != 4 or data.shape[3] != 3:
        raise UserError(f"{path} has no uint8 pictures (N, H, W, 3) under 'image_data' or 'data': download it again")
    labels: dict[int, str] = {}
    if "class_dict" in table:
        labels = {int(row): text(name) for name, rows in table["class_dict"].items() for row in rows}
    elif "labels" in table:
        # Without class names, the numbers of the classes serve as names.
        names = {int(number): text(name) for name, number in table.get("catname2label", {}).items()}
        labels = {row: names.get(int(number), f"class {int(number)}") for row, number in enumerate(table["labels"])}
    if not labels or max(labels) >= len(data) or min(labels) < 0:
        raise UserError(f"{path} has no labels that fit its {len(data)} pictures: download it again")
    return [Picture(f"{path.name}/{row:05d}", label, data[row]) for row, label in labels.items()]
