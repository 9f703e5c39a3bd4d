"""The validation report under Airflow's own address, for people who are logged in.

`/strata-report/` serves the pages of Data Docs that the job of soft evaluation writes: only the
folder `site`. A task that wrote a report has a link to it. The contents of a page come from data,
so a page is a sandbox: nothing in it runs, it has no origin and hence no access to the reader's
cookie, and it loads nothing, because its style is inline.
The application is built on the first request: every process of Airflow loads the plugin, but only
one serves.
"""

from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from airflow.sdk import BaseOperatorLink

from strata_airflow.places import report_dir

PREFIX: Final = "/strata-report"
SITE_FOLDER: Final = "site"  # of the report; Great Expectations keeps its own files beside it
POLICY: Final = (
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none';"
    " form-action 'none'; frame-ancestors 'self'"
)
HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
METHODS: Final = ["GET", "HEAD"]
MISSING: Final = "no such page of the report: has soft evaluation run?"


class ReportLink(BaseOperatorLink):
    """A button on a task that opens the task's report."""

    name = "Report"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """Return the address of the report; empty if the task wrote none."""
        return address(getattr(operator, "report", ""))


def address(index: str) -> str:
    """Return the address of a page of the report; empty if it is not in the report's folder."""
    from airflow.sdk.configuration import conf

    base = str(conf.get("api", "base_url", fallback="")).rstrip("/")
    try:
        inside = report_dir().joinpath(index).resolve().relative_to(_site())
    except ValueError:
        return ""
    return f"{base}{PREFIX}/{quote(inside.as_posix())}" if index else ""


class Site:
    """The report as an ASGI application for the web server."""

    def __init__(self) -> None:
        """Prepare; nothing is imported yet."""
        self._app: Any = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request."""
        if self._app is None:
            self._app = _application()
        await self._app(scope, receive, send)


def _site() -> Path:
    return (report_dir() / SITE_FOLDER).resolve()


def _application() -> Any:
    from airflow.api_fastapi.auth.managers.models.resource_details import AccessView
    from airflow.api_fastapi.core_api.security import requires_access_view
    from fastapi import Depends, FastAPI, HTTPException
    from fastapi.responses import FileResponse, RedirectResponse

    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    of_viewers = [Depends(requires_access_view(AccessView.PLUGINS))]

    def found(name: str) -> Path:
        with suppress(OSError, ValueError):  # no file can have such a name
            file = (_site() / name).resolve()
            if file.is_relative_to(_site()) and file.suffix == ".html" and file.is_file():
                return file
        raise HTTPException(404, MISSING)

    @app.api_route(f"/{SITE_FOLDER}/{{page:path}}", methods=METHODS, dependencies=of_viewers)
    def moved(page: str) -> Any:
        """Redirect links of older runs; the address is relative, as Airflow may have a prefix."""
        inside = found(page or "index.html").relative_to(_site()).as_posix()
        return RedirectResponse("../" * (page.count("/") + 1) + quote(inside))

    @app.api_route("/{page:path}", methods=METHODS, dependencies=of_viewers)
    def page(page: str) -> Any:
        return (
            FileResponse(found(page), headers=HEADERS) if page else RedirectResponse("index.html")
        )

    return app
