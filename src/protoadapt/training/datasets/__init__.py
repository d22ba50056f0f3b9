"""Files on disk → uint8 arrays decoded once; class splits; the datasets by name."""

from protoadapt.training.datasets.audit import Report, check
from protoadapt.training.datasets.fetch import download
from protoadapt.training.datasets.load import load
from protoadapt.training.datasets.registry import DATASETS, Dataset, class_list, find_dataset, find_split
from protoadapt.vision.pictures.split import Images

__all__ = [
    "DATASETS",
    "Dataset",
    "Images",
    "Report",
    "check",
    "class_list",
    "download",
    "find_dataset",
    "find_split",
    "load",
]
