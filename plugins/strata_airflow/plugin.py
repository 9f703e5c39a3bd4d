"""The plugin that Airflow loads: it adds the console and the validation report."""

from typing import Any, Final

from airflow.plugins_manager import AirflowPlugin

from strata_airflow import console
from strata_airflow.console import Console, ShardLink
from strata_airflow.ending import EndingTimetable
from strata_airflow.report import PREFIX, ReportLink, Site

_SHARDS: Final = {"name": "Shards", "href": f"{console.PREFIX.removeprefix('/')}/"}


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
        {**_SHARDS, "destination": "nav", "category": "browse"},
        # Only with a route of its own does Airflow show a tab; the console is drawn in a frame.
        *(
            {**_SHARDS, "destination": where, "url_route": f"strata-{where.replace('_', '-')}"}
            for where in ("dag", "dag_run", "task", "task_instance")
        ),
    ]
    timetables: list[Any] = [EndingTimetable]  # noqa: RUF012 - likewise
    operator_extra_links: list[Any] = [ReportLink(), ShardLink()]  # noqa: RUF012 - likewise
