"""Strata's part in Airflow: submission of jobs, forms, assets and set-up.

It is light on purpose, because every process that parses a DAG file imports it: no data library,
no engine.
"""
