"""Names for pictures from a few examples of each class: the commands `label` and `predict`, as functions.

The names below are loaded when they are first used: `predict` needs neither torch nor scikit-learn, and what works on
features needs no pillow.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from protoadapt.labeling.classifier import Classifier, load_classifier, save_classifier
    from protoadapt.labeling.label_pictures import label, predict

DEFAULT_MODEL = "lite0"
DEFAULT_METHOD = "bapa"
"""What `label` embeds pictures with, and what it fits, unless others are asked for."""
__all__ = ["Classifier", "label", "load_classifier", "predict", "save_classifier"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'protoadapt.labeling' has no attribute {name!r}")
    home = "label_pictures" if name in ("label", "predict") else "classifier"
    return getattr(import_module(f"protoadapt.labeling.{home}"), name)
