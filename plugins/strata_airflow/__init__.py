"""What Airflow knows of Strata: how a job is submitted, its forms, assets and set-up.

Light on purpose: every process that parses a DAG file imports it. No data library, no engine.
"""
