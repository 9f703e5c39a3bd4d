"""Change a shard: commits, their ledger, leases and holds. No other room changes one."""
