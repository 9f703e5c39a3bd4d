"""Source formats: one module for each, whose `FORMAT` knows all about it (`interface`)."""
