"""protoadapt: name images of classes nobody trained on, from one to five labelled examples each.

The names below are loaded when they are first used, so `import protoadapt` costs nothing and loads no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from protoadapt.core.episodes import Episodes as Episodes
    from protoadapt.core.errors import UserError as UserError
    from protoadapt.core.estimators import BAPAClassifier as BAPAClassifier
    from protoadapt.core.estimators import CIPAClassifier as CIPAClassifier
    from protoadapt.core.estimators import ProtoNetClassifier as ProtoNetClassifier
    from protoadapt.core.estimators import PTMAPClassifier as PTMAPClassifier
    from protoadapt.core.estimators import SemiProtoNetClassifier as SemiProtoNetClassifier
    from protoadapt.core.estimators import SoftKMeansClassifier as SoftKMeansClassifier
    from protoadapt.core.evaluate import compare as compare
    from protoadapt.core.evaluate import evaluate as evaluate
    from protoadapt.core.features import Features as Features
    from protoadapt.core.features import load_features as load_features
    from protoadapt.core.features import save_features as save_features
    from protoadapt.core.methods import METHODS as METHODS
    from protoadapt.core.partial_labels import labelled_folds as labelled_folds
    from protoadapt.core.protocol import Protocol as Protocol
    from protoadapt.core.results import Result as Result

HOME = {
    "METHODS": "core.methods",
    "BAPAClassifier": "core.estimators",
    "CIPAClassifier": "core.estimators",
    "Episodes": "core.episodes",
    "Features": "core.features",
    "labelled_folds": "core.partial_labels",
    "PTMAPClassifier": "core.estimators",
    "ProtoNetClassifier": "core.estimators",
    "Protocol": "core.protocol",
    "Result": "core.results",
    "SemiProtoNetClassifier": "core.estimators",
    "SoftKMeansClassifier": "core.estimators",
    "UserError": "core.errors",
    "compare": "core.evaluate",
    "evaluate": "core.evaluate",
    "load_features": "core.features",
    "save_features": "core.features",
}
__all__ = list(HOME)


def __getattr__(name: str) -> Any:
    if name not in HOME:
        raise AttributeError(f"module 'protoadapt' has no attribute {name!r}")
    return getattr(import_module(f"protoadapt.{HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
