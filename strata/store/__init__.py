"""The edge of the world: blobs and consensus, and nothing else does I/O on stored data."""
