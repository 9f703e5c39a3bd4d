"""Changes of keyed rows: staged, resolved against the shard, settled."""
