"""Pure algorithms on updates in memory: order, advance, consolidate, merge."""
