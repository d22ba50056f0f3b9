"""protoadapt: name images of classes nobody trained on, from one to five labelled examples each."""

import os
from typing import TYPE_CHECKING, Any

# OpenMP's threads spin while they wait: where another program takes a core, they rob each other of the rest, and all is
# two to three times slower. These soon sleep instead, which on an idle machine costs methods of many small steps (iLPC,
# LR+ICI) 15 % and the others nothing. OpenMP reads this once, when torch is loaded, so it stands before all that
# imports torch; who has chosen something keeps it.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")

from protoadapt.episodes import Episodes, Protocol
from protoadapt.errors import UserError
from protoadapt.evaluate import Result, compare, evaluate
from protoadapt.features import Features, load_features, save_features
from protoadapt.methods import METHODS
from protoadapt.provenance import VERSION

if TYPE_CHECKING:
    from protoadapt.estimators import (
        BAPAClassifier,
        CIPAClassifier,
        LabelledKFold,
        ProtoNetClassifier,
        PTMAPClassifier,
        SemiProtoNetClassifier,
        SoftKMeansClassifier,
    )

__version__ = VERSION

__all__ = [
    "METHODS",
    "BAPAClassifier",
    "CIPAClassifier",
    "Episodes",
    "Features",
    "LabelledKFold",
    "PTMAPClassifier",
    "ProtoNetClassifier",
    "Protocol",
    "Result",
    "SemiProtoNetClassifier",
    "SoftKMeansClassifier",
    "UserError",
    "compare",
    "evaluate",
    "load_features",
    "save_features",
]


def __getattr__(name: str) -> Any:
    """The estimators, when asked for: scikit-learn takes a second to import, and no command should wait for it."""
    if name not in __all__:
        raise AttributeError(f"module 'protoadapt' has no attribute {name!r}")
    from protoadapt import estimators

    return getattr(estimators, name)
