"""Features of millions of pictures: a manifest cut into shards, and a part of one table for each."""

from protoadapt.vision.pictures.read import hashed as hashed
from protoadapt.vision.pictures.walk import Entry as Entry
from protoadapt.vision.pictures.walk import find as find
from protoadapt.vision.shards.extract import Done as Done
from protoadapt.vision.shards.extract import extract_parts as extract_parts
from protoadapt.vision.shards.extract import list_broken as list_broken
from protoadapt.vision.shards.extract import open_features as open_features
from protoadapt.vision.shards.manifest import SHARD_SIZE as SHARD_SIZE
from protoadapt.vision.shards.manifest import load_manifest as load_manifest
from protoadapt.vision.shards.manifest import write_manifest as write_manifest
