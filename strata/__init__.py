"""Strata: changelogs on object storage, with reads that skip only what is proven irrelevant."""

__version__ = "0.1.0"
