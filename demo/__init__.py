"""The demo: real flights of 2013, laid out as files by day and run through the pipeline."""
