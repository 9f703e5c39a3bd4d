"""Filters as JSON text live with the expressions; this is the name that Spark's side knows."""

from strata.expr.exprjson import dump_filter, load_filter

__all__ = ["dump_filter", "load_filter"]
