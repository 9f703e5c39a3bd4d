"""The front end: a filter that Spark analysed becomes a typed expression."""
