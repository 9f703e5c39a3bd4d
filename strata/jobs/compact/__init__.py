"""The compact job: entry point only; the work is in `strata.compact`."""
