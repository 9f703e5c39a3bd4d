"""The plugin that Airflow loads: it adds the console and the validation report."""

from typing import Any

from airflow.plugins_manager import AirflowPlugin

from strata_airflow import console
from strata_airflow.console import Console, ShardLink
from strata_airflow.report import PREFIX, ReportLink, Site


class StrataPlugin(AirflowPlugin):
    """The pages, the menu entries and tabs that lead to them, and the links from a task."""

    name = "strata"
    fastapi_apps: list[Any] = [  # noqa: RUF012 - as Airflow declares it
        {"app": Site(), "url_prefix": PREFIX, "name": "Strata: validation report"},
        {"app": Console(), "url_prefix": console.PREFIX, "name": "Strata: console"},
    ]
    external_views: list[Any] = [  # noqa: RUF012 - as Airflow declares it
        {
            "name": "Validation report",
            "href": f"{PREFIX.removeprefix('/')}/index.html",
            "destination": "nav",
            "category": "browse",
            # Without an Airflow route it opens as a page of its own, not in a frame: in a frame,
            # a link from one page of the sandbox to the next would lose the log-in.
        },
        *(
            {
                "name": "Shards",
                "href": f"{console.PREFIX.removeprefix('/')}/",
                "destination": destination,
                **({"category": "browse"} if destination == "nav" else {}),
            }
            for destination in ("nav", "dag", "dag_run", "task")
        ),
    ]
    operator_extra_links: list[Any] = [ReportLink(), ShardLink()]  # noqa: RUF012 - likewise
