"""protoadapt: name images of classes nobody trained on, from one to five labelled examples each."""

from protoadapt.episodes import Episodes, Protocol
from protoadapt.errors import UserError
from protoadapt.evaluate import Result, compare, evaluate
from protoadapt.features import Features, load_features, save_features
from protoadapt.methods import METHODS

__version__ = "0.1.0"

__all__ = [
    "METHODS",
    "Episodes",
    "Features",
    "Protocol",
    "Result",
    "UserError",
    "compare",
    "evaluate",
    "load_features",
    "save_features",
]
