"""Files on disk → uint8 arrays decoded once; class splits; the datasets by name."""

from protoadapt.data.audit import Report, check
from protoadapt.data.fetch import download
from protoadapt.data.images import Images, load
from protoadapt.data.registry import DATASETS, Dataset, class_list, find_dataset, find_split

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
