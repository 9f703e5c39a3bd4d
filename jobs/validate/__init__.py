"""Soft evaluation and format checks on Spark, and the report that comes of them."""
