"""Decide from statistics which batches, parts and row groups a read needs, and nothing else."""
