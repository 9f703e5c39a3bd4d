"""The module that Airflow finds in its plugins folder; the rest is imported when needed."""

from strata_airflow.plugin import StrataPlugin

__all__ = ["StrataPlugin"]
