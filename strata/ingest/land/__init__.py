"""Source files: where they are, what time each belongs to, and their bytes."""
