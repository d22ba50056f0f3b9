"""Names for pictures from a few examples of each class: the commands `label` and `predict`, as functions.

The names below are loaded when they are first used: `predict` needs neither scikit-learn nor numba.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from protoadapt.labeling.classifier import Classifier as Classifier
    from protoadapt.labeling.classifier import load_classifier as load_classifier
    from protoadapt.labeling.classifier import save_classifier as save_classifier
    from protoadapt.labeling.label_methods import ESTIMATORS as ESTIMATORS
    from protoadapt.labeling.label_pictures import label as label
    from protoadapt.labeling.predict_pictures import predict as predict
    from protoadapt.labeling.thumbnails import with_images as with_images

HOME = {
    "ESTIMATORS": "label_methods",
    "Classifier": "classifier",
    "label": "label_pictures",
    "load_classifier": "classifier",
    "predict": "predict_pictures",
    "save_classifier": "classifier",
    "with_images": "thumbnails",
}
__all__ = list(HOME)


def __getattr__(name: str) -> Any:
    if name not in HOME:
        raise AttributeError(f"module 'protoadapt.labeling' has no attribute {name!r}")
    return getattr(import_module(f"protoadapt.labeling.{HOME[name]}"), name)
