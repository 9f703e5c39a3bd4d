"""The `strata` command: one module per family of commands, JSON output that stays stable."""
