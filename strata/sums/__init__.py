"""Sums of a shard by groups, kept in another shard from its changes.

`wish` is what is asked for, `run` brings a target up to its source, `check` compares it with the
whole source, `follow` does so for what shards are declared to hold.
"""
