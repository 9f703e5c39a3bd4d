"""Filters as typed expressions, and their abstract interpretation; knows no statistics."""
