"""The methods of `label`, by name; not in `classifier`: scikit-learn is slow to load and `predict` needs none of it."""

from collections.abc import Mapping
from typing import Any

from protoadapt.core.errors import no_such
from protoadapt.core.estimators import PrototypeClassifier

ESTIMATORS = {kind.method.__name__: kind for kind in PrototypeClassifier.__subclasses__()}


def make_estimator(method: str, settings: Mapping[str, Any], device: str = "cpu") -> PrototypeClassifier:
    """An unfitted estimator by the name of its method, its settings checked; BAPA looks for groups without a name."""
    if method not in ESTIMATORS:
        raise no_such("method for labelling", method, ESTIMATORS)
    # Apple's GPUs have no float64, in which sums over rows are computed: those compute networks only.
    estimator = ESTIMATORS[method](device="cpu" if device.startswith("mps") else device)
    known = estimator.get_params().keys() - {"device"}
    for key in settings:
        if key not in known:
            raise no_such("setting", key, sorted(known), of=method)
    if "discover" in known:
        settings = {"discover": True, **settings}
    estimator.set_params(**settings).check_settings()
    return estimator


def described(estimator: PrototypeClassifier) -> dict[str, Any]:
    """The name and settings of an estimator's method, as labels.json holds them."""
    settings = {key: value for key, value in estimator.get_params().items() if key != "device"}
    return {"name": estimator.method.__name__, "settings": settings}
