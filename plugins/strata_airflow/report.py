"""The validation report under Airflow's own address, for those who are logged in.

`/strata-report/` serves the pages of Data Docs that `jobs/validate` writes, the folder `site` and
nothing beside it; a task that wrote one has a link to it. What stands in a page comes from data, so
a page is a sandbox: its scripts run without Airflow's origin, hence without the reader's cookie,
and may ask nobody for anything. Without that origin the browser sends no cookie for styles, scripts
and fonts either, so these files, public libraries and the same everywhere, are given to anyone.
Built when the first page is asked for: every process of Airflow loads the plugin, one serves.
"""

from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from airflow.sdk import BaseOperatorLink

from strata_airflow.places import report_dir

PREFIX: Final = "/strata-report"
SITE_FOLDER: Final = "site"  # of the report; beside it lies what Great Expectations keeps
LIBRARIES: Final = "static"  # in it
LIBRARY_KINDS: Final = frozenset({".css", ".js", ".png", ".svg", ".ico", ".woff2"})
POLICY: Final = (
    "sandbox allow-scripts; default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval';"
    " style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:;"
    " connect-src 'none'; object-src 'none'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'self'"
)
HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
METHODS: Final = ["GET", "HEAD"]
MISSING: Final = "no such page of the report: has soft evaluation run?"


class ReportLink(BaseOperatorLink):
    """The button of a task that leads to the report it wrote."""

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
    """The report as an application of the web server's kind (ASGI)."""

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

    def found(folder: Path, name: str) -> Path:
        file = (folder / name).resolve()
        if not file.is_relative_to(folder) or not file.is_file():
            raise HTTPException(404, MISSING)
        return file

    def served(folder: Path, name: str, **headers: str) -> Any:
        return FileResponse(found(folder, name), headers=HEADERS | headers)

    @app.api_route(f"/{LIBRARIES}/{{name:path}}", methods=METHODS)
    def library(name: str) -> Any:
        if Path(name).suffix not in LIBRARY_KINDS:
            raise HTTPException(404, MISSING)
        # A font is asked for by the page's origin, which is none.
        return served(_site() / LIBRARIES, name, **{"Access-Control-Allow-Origin": "*"})

    @app.api_route(f"/{SITE_FOLDER}/{{page:path}}", methods=METHODS, dependencies=of_viewers)
    def moved(page: str) -> Any:
        """Lead links of older runs to where the page is now; relative: Airflow may lie deeper."""
        inside = found(_site(), page or "index.html").relative_to(_site()).as_posix()
        return RedirectResponse("../" * (page.count("/") + 1) + quote(inside))

    @app.api_route("/{page:path}", methods=METHODS, dependencies=of_viewers)
    def page(page: str) -> Any:
        return served(_site(), page) if page else RedirectResponse("index.html")

    return app
