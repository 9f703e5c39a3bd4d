"""Read and write the blobs that a state names: manifests and parts."""
