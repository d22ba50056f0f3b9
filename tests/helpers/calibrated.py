"""Calibrations as model cards state them."""


def calibration(threshold=0.1):
    """One with the same threshold for every task."""
    return {"usual": [0.0] * 4, "rates": [0.1], "thresholds": [[threshold, 0.0, 0.0, 0.0, 0.0]]}
