"""Features of millions of pictures: a manifest cut into shards, and a part of one table for each."""
