"""The state of a shard as a value, and the pure functions that change it; never any I/O."""
