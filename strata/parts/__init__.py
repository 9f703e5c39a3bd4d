"""What a state names, as it is stored: manifests and parts, read and written."""
