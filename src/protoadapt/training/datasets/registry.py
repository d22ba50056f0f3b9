"""The datasets by name: layouts on disk, classes per split, numbers of pictures, official address."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any

from protoadapt.core.errors import UserError, no_such
from protoadapt.training.datasets import layouts
from protoadapt.vision.pictures.split import SplitSource

SPLITS = {"base": "base", "train": "base", "val": "val", "validation": "val", "novel": "novel", "test": "novel"}


Find = Callable[[Path, str, list[str], str], SplitSource | None]
"""(root, split, classes, crop) → the pictures of that split, where a folder is laid out in one way (see `layouts`)."""


@dataclass(frozen=True)
class Dataset:
    """A dataset: how to find it, what it must contain, and how training normalises it."""

    title: str
    layouts: Mapping[str, Find]  # words → layout, tried in this order; none: built in
    home: str  # official address
    mean: tuple[float, float, float] = (0.485, 0.456, 0.406)  # of the base classes, pixels from 0 to 1, as `load`
    std: tuple[float, float, float] = (0.229, 0.224, 0.225)  # returns them; by default the usual ones of ImageNet
    images: Mapping[str, int] = field(default_factory=dict)  # pictures per split, as published
    folders: tuple[str, ...] = ()  # usual names of its folder inside the data folder
    size: int = 84
    crops: tuple[str, ...] = ("none",)
    url: str | None = None
    md5: str | None = None

    @property
    def looks_like(self) -> str:
        return ", or ".join(self.layouts)


CIFAR: dict[str, Any] = {
    "layouts": {
        "cifar-100-python/ with train, test and meta": layouts.cifar_pickles,
        "one folder of pictures per class": layouts.class_folders,
    },
    "home": "https://www.cs.toronto.edu/~kriz/cifar.html (CIFAR-100, Python version)",
    "url": "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
    "md5": "eb9058c3a382ffc7106e4002c42a8d85",
}
"""What CIFAR-FS and FC100 share: they split the same pictures."""


DATASETS = {
    "cifar-fs": Dataset(
        title="CIFAR-FS",
        **CIFAR,
        folders=("cifar-100-python", "cifar100", "CIFAR-FS", "cifar_fs", "cifar-fs"),
        mean=(0.5088, 0.4917, 0.4437),
        std=(0.2660, 0.2549, 0.2759),
        images={"base": 38_400, "val": 9_600, "novel": 12_000},
    ),
    "fc100": Dataset(
        title="FC100",
        **CIFAR,
        folders=("cifar-100-python", "cifar100", "FC100", "fc100"),
        mean=(0.5182, 0.4976, 0.4584),
        std=(0.2728, 0.2618, 0.2861),
        images={"base": 36_000, "val": 12_000, "novel": 12_000},
    ),
    # Eight of its pictures occur twice, a few of them in a base and a validation class: it is used as published.
    "mini-imagenet": Dataset(
        title="mini-ImageNet",
        layouts={
            "images/ with train.csv, val.csv and test.csv": layouts.mini_csv,
            "mini-imagenet-cache-train.pkl, -val.pkl and -test.pkl": layouts.mini_pickle,
            "one folder of pictures per class (n01532829/ …)": layouts.imagenet_folders,
        },
        folders=("mini-imagenet", "mini_imagenet", "miniImageNet", "miniImagenet", "miniimagenet"),
        home="https://image-net.org/download.php (ILSVRC 2012), split by https://github.com/twitter-research/meta-learning-lstm",
        mean=(0.4709, 0.4503, 0.4055),
        std=(0.2714, 0.2646, 0.2782),
        images={"base": 38_400, "val": 9_600, "novel": 12_000},
    ),
    "tiered-imagenet": Dataset(
        title="tiered-ImageNet",
        layouts={
            "train_images_png.pkl and train_labels.pkl, and so for val and test": layouts.tiered_pickles,
            "one folder of pictures per class (n01530575/ …), or such in train/, val/, test/": layouts.imagenet_folders,
        },
        folders=("tiered-imagenet", "tiered_imagenet", "tieredImageNet", "tieredImagenet", "tieredimagenet"),
        home="https://github.com/renmengye/few-shot-ssl-public, or the class folders of ILSVRC 2012 from https://image-net.org",
        images={"base": 448_695, "val": 124_261, "novel": 206_209},
    ),
    "cub": Dataset(
        title="CUB-200-2011",
        layouts={
            "CUB_200_2011/ with images/, images.txt and bounding_boxes.txt": layouts.cub,
            "one folder of pictures per class (001.Black_footed_Albatross/ …) with boxes.csv beside them": layouts.cub,
        },
        folders=("CUB_200_2011", "CUB-200-2011", "CUB-200-2011-dataset", "cub"),
        home=layouts.CUB_HOME,
        url="https://data.caltech.edu/records/65de6-vp158/files/CUB_200_2011.tgz",
        md5="97eceeb196236b17998738112f37df78",
        mean=(0.4743, 0.4747, 0.4053),  # cut to bounding boxes
        std=(0.2240, 0.2208, 0.2460),
        images={"base": 5_885, "val": 2_950, "novel": 2_953},
        crops=("none", "box"),
    ),
    "glyphs": Dataset(
        title="glyphs",
        layouts={},
        home="built in: drawn from the fonts that come with matplotlib",
        mean=(0.4957, 0.4962, 0.4990),
        std=(0.2910, 0.3068, 0.2842),
        size=32,
    ),
    "folder": Dataset(
        title="a folder of class folders",
        layouts={"one folder of pictures per class, alone or in base/, val/ and novel/": layouts.any_folder},
        home="your own pictures",
    ),
}


def find_dataset(name: str) -> tuple[str, Dataset]:
    """(key, entry) of DATASETS for a name, which may be written with underscores."""
    key = name.replace("_", "-")
    if key not in DATASETS:
        raise no_such("dataset", name, DATASETS)
    return key, DATASETS[key]


@cache
def _lists() -> dict:
    return json.loads(files("protoadapt.training.datasets").joinpath("splits.json").read_text(encoding="utf-8"))


def class_list(name: str, split: str) -> list[str]:
    """The published classes of a split, sorted; empty for a user's own folder."""
    return list(_lists().get(name, {}).get(split, []))


def download_hint(name: str, data_dir: str | Path) -> str:
    """Where to download a dataset, and the command that does it where there is one."""
    command = f", or run `protoadapt data --dataset {name} --data {data_dir} --download`"
    return f"download it from {DATASETS[name].home}{command if DATASETS[name].url else ''}"


def data_folder(name: str, data_dir: str | Path | None) -> Path:
    """The data folder of a dataset, or the error that says which one to give."""
    title = DATASETS[name].title
    if data_dir is None:
        raise UserError(f"{title} needs a data folder: give the folder that holds it with --data DIR")
    folder = Path(data_dir)
    if folder.is_dir():
        return folder
    wanted = f"the folder that holds {title}; {download_hint(name, folder)}"
    if name == "folder":
        wanted = "one that holds one folder of pictures per class"
    raise UserError(f"there is no folder {str(folder)!r}: give {wanted}")


def search(name: str, split: str, data_dir: str | Path | None, crop: str) -> SplitSource | None:
    """The pictures of a split in the data folder or a usual folder inside it; None where there are none."""
    dataset = DATASETS[name]
    classes = class_list(name, split)
    home = data_folder(name, data_dir)
    roots = [home, *(home / folder for folder in dataset.folders)]
    for root, layout in product(filter(Path.is_dir, roots), dataset.layouts.values()):
        if source := layout(root, split, classes, crop):
            return source
    return None
