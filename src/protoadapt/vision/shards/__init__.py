"""Features of millions of pictures: a manifest cut into shards, one file of features per shard."""

from protoadapt.vision.pictures.read import hashed
from protoadapt.vision.pictures.walk import Entry, find
from protoadapt.vision.shards.extract import Done, extract, list_broken
from protoadapt.vision.shards.manifest import SHARD_SIZE, Manifest
from protoadapt.vision.shards.manifest import load as load_manifest
from protoadapt.vision.shards.manifest import write as write_manifest

__all__ = [
    "SHARD_SIZE",
    "Done",
    "Entry",
    "Manifest",
    "extract",
    "find",
    "hashed",
    "list_broken",
    "load_manifest",
    "write_manifest",
]
