"""The validation report under Airflow's own address, for those who are logged in.

`/strata-report/` serves the folder of Data Docs that `jobs/validate` writes; a task that wrote one
has a link to it. The pages bring all that they need, and a policy of theirs forbids the rest.
Built when the first page is asked for: every process of Airflow loads the plugin, one serves.
"""

from typing import Any, Final
from urllib.parse import quote

from airflow.sdk import BaseOperatorLink

from strata_airflow.places import report_dir

PREFIX: Final = "/strata-report"
POLICY: Final = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval';"
    " style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:"
)


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
        inside = report_dir().joinpath(index).resolve().relative_to(report_dir().resolve())
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


def _application() -> Any:
    from airflow.api_fastapi.auth.managers.models.resource_details import AccessView
    from airflow.api_fastapi.core_api.security import requires_access_view
    from fastapi import Depends, FastAPI, HTTPException
    from fastapi.responses import FileResponse, RedirectResponse

    app = FastAPI(
        dependencies=[Depends(requires_access_view(AccessView.PLUGINS))],
        docs_url=None, redoc_url=None, openapi_url=None,
    )  # fmt: skip

    @app.get("/{page:path}")
    def page(page: str) -> Any:
        if not page:
            return RedirectResponse("index.html")
        folder = report_dir().resolve()
        file = (folder / page).resolve()
        if not file.is_relative_to(folder) or not file.is_file():
            raise HTTPException(404, "no such page of the report: has soft evaluation run?")
        return FileResponse(file, headers={"Content-Security-Policy": POLICY})

    return app
