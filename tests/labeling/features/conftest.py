"""A table of the features of an archive of pictures."""

from helpers.archive import archive, features, manifest, model, table

__all__ = ["archive", "features", "manifest", "model", "table"]
