"""Takes tables of other formats in, and what changes in them afterwards, exactly once."""
