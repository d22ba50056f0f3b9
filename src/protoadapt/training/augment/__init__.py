"""Weak and strong views, batched on the training device, with independent draws per image."""

from protoadapt.training.augment.strong import apply_strong, draw_strong
from protoadapt.training.augment.weak import apply_weak, draw_weak

__all__ = ["apply_strong", "apply_weak", "draw_strong", "draw_weak"]
