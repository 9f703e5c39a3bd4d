"""The only room that changes a shard: commits, their ledger, leases and holds."""
