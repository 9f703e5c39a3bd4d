"""Converts source values to typed columns."""
