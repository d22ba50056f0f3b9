"""An archive of pictures and its shards."""

from helpers.archive import archive, features, manifest, model

__all__ = ["archive", "features", "manifest", "model"]
