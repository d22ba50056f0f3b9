"""Calibrations as model cards state them."""

from protoadapt.labeling.classifier import described, make_estimator


def calibration(way=(3,), threshold=(0.3,), temperature=1.0, method="bapa"):
    """One that was made with a method at its defaults."""
    settings = described(make_estimator(method, {}))["settings"]
    familiarity = {"way": list(way), "threshold": list(threshold)}
    return {"temperature": temperature, "method": method, "settings": settings, "familiarity": familiarity}
