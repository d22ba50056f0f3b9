"""Pictures by the million: a manifest cut into shards, features shard by shard, labels in a stream."""

from protoadapt.shards.extract import Done, extract, list_broken
from protoadapt.shards.manifest import SHARD_SIZE, Manifest
from protoadapt.shards.manifest import load as load_manifest
from protoadapt.shards.manifest import write as write_manifest
from protoadapt.shards.walk import Entry, find, hashed

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
