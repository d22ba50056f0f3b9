"""Weak and strong views, batched on the training device, with independent draws per image."""
