"""The plugin that Airflow loads: it adds one page to the menu, the validation report."""

from typing import Any

from airflow.plugins_manager import AirflowPlugin

from strata_airflow.report import PREFIX, ReportLink, Site


class StrataPlugin(AirflowPlugin):
    """The report's pages, the menu entry for them, and the link from a task."""

    name = "strata"
    fastapi_apps: list[Any] = [  # noqa: RUF012 - as Airflow declares it
        {"app": Site(), "url_prefix": PREFIX, "name": "Strata: validation report"}
    ]
    external_views: list[Any] = [  # noqa: RUF012 - as Airflow declares it
        {
            "name": "Validation report",
            "href": f"{PREFIX.removeprefix('/')}/index.html",
            "destination": "nav",
            "category": "browse",
            # Without an Airflow route it opens as a page of its own, not in a frame: in a frame,
            # a link from one page of the sandbox to the next would lose the log-in.
        }
    ]
    operator_extra_links: list[Any] = [ReportLink()]  # noqa: RUF012 - likewise
