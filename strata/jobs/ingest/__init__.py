"""The ingest task: files of an interval become batches."""
