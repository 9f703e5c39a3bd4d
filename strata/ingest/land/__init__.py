"""Source files: where they lie, what time each is of, and their bytes."""
