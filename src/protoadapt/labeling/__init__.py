"""Names for pictures from a few examples of each class: the commands `label` and `predict`, as functions."""

from protoadapt.labeling.classifier import ESTIMATORS, Classifier, load_classifier, save_classifier
from protoadapt.labeling.label_folder import label, predict
from protoadapt.labeling.label_shards import label_features
from protoadapt.labeling.thumbnails import with_images

__all__ = [
    "ESTIMATORS",
    "Classifier",
    "label",
    "label_features",
    "load_classifier",
    "predict",
    "save_classifier",
    "with_images",
]
