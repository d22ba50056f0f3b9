"""What suits each dataset, by our own first runs: crops, length, batch. Weight decay, crops and selection on validation
matter more than length; too many epochs at small batch counts hurt, so the best epoch is kept."""

from typing import Any

from protoadapt.data import find_dataset

SETTINGS: dict[str, dict[str, Any]] = {
    "cifar-fs": {"weak_crop": "pad", "epochs": 40},
    "fc100": {"weak_crop": "pad", "epochs": 40},
    "mini-imagenet": {"weak_crop": "resized", "epochs": 50},
    "tiered-imagenet": {"weak_crop": "resized", "epochs": 20},
    "cub": {"weak_crop": "resized", "epochs": 200, "batch": 128, "validate_every": 10, "checkpoint_every": 10},
    # Ink may be lighter or darker than its ground, so nothing simple tells 227 characters apart, and training sits near
    # chance at first: a warm-up halves that time, and Conv-4 never leaves it in as many steps.
    "glyphs": {
        **{"size": 32, "weak_crop": "pad", "flip": False, "backbone": "resnet12", "width": 8},
        **{"epochs": 5, "batch": 64, "lr": 0.2, "warmup": 0.5, "ema": 0.99},
        **{"validate_every": 1, "validation_episodes": 200, "checkpoint_every": 1},
    },
    "folder": {"weak_crop": "resized", "epochs": 50, "batch": 128},
}


def settings(dataset: str) -> dict[str, Any]:
    """Arguments of TrainConfig for a dataset."""
    name, _ = find_dataset(dataset)
    return {"validate_every": 4, "checkpoint_every": 4, **SETTINGS[name], "dataset": name}
