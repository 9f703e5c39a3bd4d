"""The console as a web application: pages to look at, and nothing that changes anything.

Its home decides who may look: `guards` are dependencies of each page, such as Airflow's. On a
laptop `of_token` lets in who has the token that the command printed.
"""

import secrets
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final

from fastapi import FastAPI, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from strata.errors import StrataError
from strata.ui.pages import Asked, Pages, policy, rendered_problem
from strata.ui.what_if import LONGEST

COOKIE: Final = "strata_console"
HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")

Where = Annotated[str, Query(max_length=LONGEST)]
Number = Annotated[int | None, Query(ge=0)]


def console(pages: Callable[[], Pages], guards: Sequence[Any] = ()) -> FastAPI:
    """Return the application. `pages` is called for each request; `guards` for each page."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)

    @app.middleware("http")
    async def with_headers(request: Request, call_next: Any) -> Response:
        answer: Response = await call_next(request)
        answer.headers.update(HEADERS)
        answer.headers["Content-Security-Policy"] = policy()
        return answer

    @app.exception_handler(StrataError)
    def refused(request: Request, error: StrataError) -> HTMLResponse:
        status, page = rendered_problem(pages(), _base(request), error)
        return HTMLResponse(page, status)

    how: Any = {"dependencies": list(guards), "response_class": HTMLResponse}

    @app.get("/", **how)
    def shards(request: Request) -> str:
        return pages().shards(_base(request))

    @app.get("/shards/{name}", **how)
    def shard(
        request: Request, name: str, where: Where = "", seqno: Number = None, batch: Number = None
    ) -> str:
        return pages().shard(_base(request), name, Asked(where, seqno, batch))

    @app.get("/shards/{name}/rollout", **how)
    def rollout(request: Request, name: str) -> str:
        return pages().rollout(_base(request), name)

    return app


def _base(request: Request) -> str:
    """Return what stands before our addresses: the place where the application is mounted."""
    return str(request.scope.get("root_path", "")).rstrip("/")


def of_token(app: FastAPI, token: str) -> FastAPI:
    """Let in only who has the token: once in the address, then as a cookie of this browser.

    Other names of this machine are refused, so that no page of another site can ask in its name.
    """

    @app.middleware("http")
    async def admitted(request: Request, call_next: Any) -> Response:
        if request.headers.get("host", "").rpartition(":")[0] not in LOOPBACK:
            return Response("this console answers on loopback only", 421)
        given = request.query_params.get("token", "")
        if given:
            if not secrets.compare_digest(given.encode(), token.encode()):
                return Response("this token is not the one that was printed", 401)
            answer = RedirectResponse(str(request.url.remove_query_params("token")), 303)
            answer.set_cookie(COOKIE, token, httponly=True, samesite="strict")
            return answer
        if not secrets.compare_digest(request.cookies.get(COOKIE, "").encode(), token.encode()):
            return Response("open the address that `strata ui` printed", 401)
        answered: Response = await call_next(request)
        return answered

    return app
