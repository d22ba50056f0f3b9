"""Training: a config, pictures of base classes, one loop, a checkpoint."""

from protoadapt.training.build import load_splits, stored_config
from protoadapt.training.config import Phase, TrainConfig
from protoadapt.training.loop import Event, train

__all__ = ["Event", "Phase", "TrainConfig", "load_splits", "stored_config", "train"]
