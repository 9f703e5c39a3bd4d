"""Garbage collection: which blobs can never be needed again, and their removal.

`reach` says what states name, `verdicts` judges one blob, `sweep` plans and deletes, `leaks`
compares what is stored with what should be. Source: docs/explanation/gc.md.
"""

from strata.gc.leaks import LeakReport, find_leaks
from strata.gc.sweep import SweepReport, collect, plan

__all__ = ["LeakReport", "SweepReport", "collect", "find_leaks", "plan"]
