"""The edge of the engine: blobs and consensus. Nothing else does I/O on stored data."""
