"""Soft evaluation and format checks on Spark, and the report about them."""
