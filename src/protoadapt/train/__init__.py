"""Training: a config, pictures of base classes, one loop, a checkpoint."""

from protoadapt.train.build import load_splits, stored_config
from protoadapt.train.config import Phase, TrainConfig
from protoadapt.train.loop import train

__all__ = ["Phase", "TrainConfig", "load_splits", "stored_config", "train"]
