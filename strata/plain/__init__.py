"""Filters without Java: what surely means in Spark SQL what it seems to mean, and nothing else."""
