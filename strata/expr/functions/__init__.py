"""The transfer functions, by subject; `strata.expr.registry` gathers their entries."""
