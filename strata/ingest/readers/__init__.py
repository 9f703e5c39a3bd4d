"""Readers: source files as raw columns or changes, one module per format."""
