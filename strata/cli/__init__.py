"""The `strata` command: one module a family of commands, JSON that stays stable."""
