"""Stage changes of keyed rows, resolve them against the shard, and settle them."""
