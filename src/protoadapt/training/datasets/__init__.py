"""Files on disk → uint8 arrays decoded once; class splits; the datasets by name."""

from protoadapt.training.datasets.audit import check_dataset as check_dataset
from protoadapt.training.datasets.fetch import download as download
from protoadapt.training.datasets.load import load_images as load_images
from protoadapt.training.datasets.registry import DATASETS as DATASETS
from protoadapt.training.datasets.registry import class_list as class_list
from protoadapt.training.datasets.registry import find_dataset as find_dataset
