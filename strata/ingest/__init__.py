"""Ingest turns files into one batch per interval, exactly once: find, read, type, check, commit."""
