"""A folder of pictures → labels: what `protoadapt label` and `protoadapt predict` do, as functions."""

from protoadapt.labeling.classifier import ESTIMATORS, Classifier, load_classifier, save_classifier
from protoadapt.labeling.run import label, predict

__all__ = ["ESTIMATORS", "Classifier", "label", "load_classifier", "predict", "save_classifier"]
