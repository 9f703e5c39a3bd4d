"""Maintain stored shards: statistics, their budget, columns. Compaction has its own room."""
