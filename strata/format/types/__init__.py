"""One row for each column type: everything that is particular to it, family by family."""
