"""Features of millions of pictures: a manifest cut into shards, and a part of one table for each."""

from protoadapt.vision.pictures.read import hashed
from protoadapt.vision.pictures.walk import Entry, find
from protoadapt.vision.shards.extract import Done, extract_parts, list_broken, open_features
from protoadapt.vision.shards.manifest import SHARD_SIZE, Manifest, load_manifest, write_manifest

__all__ = [
    "SHARD_SIZE",
    "Done",
    "Entry",
    "Manifest",
    "extract_parts",
    "find",
    "hashed",
    "list_broken",
    "load_manifest",
    "open_features",
    "write_manifest",
]
