"""Soft evaluation and format checks: no statistic is taken on trust."""
