"""Strata's part in Airflow: submission of jobs, forms, assets and set-up.

It is light on purpose, because every process that parses a DAG file imports it: no data library,
no engine.
"""

__version__ = "0.1.0"  # the engine's: a test compares them
