"""The console as a web application: pages to look at, and one form, which answers a request.

Its home decides who may look: `guards` are dependencies of each page, such as Airflow's. On a
laptop `of_token` lets in who has the token that the command printed. Only a home that knows who is
there has a `Desk`, which takes answers; elsewhere nothing on a page changes anything.
"""

import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Annotated, Any, Final
from urllib.parse import quote

from fastapi import Depends, FastAPI, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from strata.errors import InvalidRequest, StrataError, bounded
from strata.ui.answers import LONGEST as LONGEST_FORM
from strata.ui.answers import Answers, Desk, check_from_here, parsed
from strata.ui.pages import Answering, Asked, ConsolePages, policy, rendered_problem
from strata.ui.what_if import LONGEST

COOKIE: Final = "strata_console"
HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # with none, browsers hide where a form comes from
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")

Where = Annotated[str, Query(max_length=LONGEST)]
Number = Annotated[int | None, Query(ge=0)]


def console(
    pages: Callable[[], ConsolePages], guards: Sequence[Any] = (), desk: Desk | None = None
) -> FastAPI:
    """Return the application. `pages` is called for each request; `guards` for each page.

    `desk`: how people answer requests; None: they are shown the commands.
    """
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

    @app.exception_handler(404)
    def nowhere(request: Request, error: Exception) -> HTMLResponse:
        text = "there is no page at this address (cure: begin with the list of shards)"
        return HTMLResponse(pages().problem(_base(request), "Not found", text), 404)

    @app.exception_handler(RequestValidationError)
    def misread(request: Request, error: RequestValidationError) -> HTMLResponse:
        wrong = "; ".join(f"{one['loc'][-1]}: {one['msg']}" for one in error.errors())
        return HTMLResponse(pages().problem(_base(request), "Not understood", bounded(wrong)), 422)

    how: Any = {"dependencies": list(guards), "response_class": HTMLResponse}

    @app.get("/", **how)
    def shards(request: Request) -> str:
        return pages().shards(_base(request))

    @app.get("/shards/{name}", **how)
    def shard(
        request: Request,
        name: str,
        where: Where = "",
        seqno: Number = None,
        batch: Number = None,
        help: bool = False,
    ) -> str:
        return pages().shard(_base(request), name, Asked(where, seqno, batch, help))

    @app.get("/shards/{name}/audits", **how)
    def audits(request: Request, name: str) -> str:
        return pages().audits(_base(request), name)

    person = Annotated[str | None, Depends(_nobody if desk is None else desk.person)]

    @app.get("/shards/{name}/rollout", **how)
    def rollout(request: Request, name: str, who: person) -> str:
        return pages().rollout(_base(request), name, _answering(pages(), desk, who))

    if desk is not None:
        _take_answers(app, pages, how, desk)
    return app


def _take_answers(app: FastAPI, pages: Callable[[], ConsolePages], how: Any, desk: Desk) -> None:
    """Add the only route that changes something: it answers the open request of a shard."""
    person = Annotated[str | None, Depends(desk.person)]

    @app.post("/shards/{name}/rollout", **how)
    async def answered(request: Request, name: str, who: person) -> Response:
        def problem(status: int, title: str, text: str) -> Response:
            return HTMLResponse(pages().problem(_base(request), title, text), status)

        if who is None:
            return problem(403, "Not answered", "who is logged in here may not answer requests")
        try:
            check_from_here(request.headers, desk.hosts)
            given = parsed(await _body(request))
        except InvalidRequest as error:
            return problem(403, "Not answered", str(error))
        place = f"{_base(request)}/shards/{quote(name, safe='')}/rollout"

        def carried_out() -> Response:
            shown = _answering(pages(), desk, who)
            assert shown is not None
            try:
                shown.answers.give(who, name, given)
            except StrataError as error:
                again = replace(shown, error=str(error), reason=given.reason)
                return HTMLResponse(pages().rollout(_base(request), name, again), 409)
            return RedirectResponse(place, 303)

        return await run_in_threadpool(carried_out)


async def _body(request: Request) -> bytes:
    """Return what a form sent, and no more than one byte beyond the longest."""
    found = b""
    async for piece in request.stream():
        found += piece
        if len(found) > LONGEST_FORM:
            break
    return found[: LONGEST_FORM + 1]


def _nobody() -> None:
    """Return who is there, where nobody is known."""


def _answering(pages: ConsolePages, desk: Desk | None, who: str | None) -> Answering | None:
    if desk is None:
        return None
    return Answering(Answers(pages.stores, pages.settings, desk.secret), who)


def _base(request: Request) -> str:
    """Return what stands before our addresses: the place where the application is mounted."""
    return str(request.scope.get("root_path", "")).rstrip("/")


def of_token(app: FastAPI, token: str) -> FastAPI:
    """Let in only who has the token: once in the address, then as a cookie of this browser.

    Other names of this machine are refused, so that no page of another site can ask in its name.
    """

    @app.middleware("http")
    async def admitted(request: Request, call_next: Any) -> Response:
        if re.sub(r":\d+\Z", "", request.headers.get("host", "")) not in LOOPBACK:
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
