"""What Airflow finds in its plugins folder; all else there is imported when it is needed."""

from strata_airflow.plugin import StrataPlugin

__all__ = ["StrataPlugin"]
