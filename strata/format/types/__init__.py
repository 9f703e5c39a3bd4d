"""One row for each column type, with everything particular to it, family by family."""
