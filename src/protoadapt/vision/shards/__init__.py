"""Features of millions of pictures: a manifest cut into shards, and a part of one table for each."""

SHARD_SIZE = 1024
"""Pictures per shard: a megabyte of features, and at most a minute of one core's work to lose."""
