"""Work on stored shards beside compaction: statistics, their budget, columns."""
