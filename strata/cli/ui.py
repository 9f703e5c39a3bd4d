"""Commands that show the console: ui on this machine, report as one file."""

import secrets
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from strata.cli.command import command
from strata.cli.context import Answer, Context, ShardArgument, answer
from strata.cli.remarks import busy, remark
from strata.expr.filter import Filter
from strata.history.usage import unread
from strata.model.extras import needed
from strata.model.schema import Relation
from strata.state.state import State
from strata.store.whole_file import written_whole

if TYPE_CHECKING:
    from strata.ui.pages import ConsolePages

HOST = "127.0.0.1"


def register(app: typer.Typer) -> None:
    """Add these commands to the application."""
    command(app, "ui", ui)
    command(app, "report", report)


def ui(
    context: Context,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Port of this machine; 0: any.")
    ] = 0,
) -> Answer:
    """Show the console in a browser of this machine, until you press Ctrl-C."""
    pages, spark = _pages(context)
    with needed("ui", "the console"):
        import uvicorn

        from strata.ui.serving import server_config
        from strata.ui.web import console, of_token

    token = secrets.token_urlsafe(24)
    config = server_config(of_token(console(lambda: pages), token), HOST, port)
    listener = config.bind_socket()
    listener.listen()  # who opens the address at once waits until the pages are served
    address = f"http://{HOST}:{listener.getsockname()[1]}/?token={token}"
    remark(f"open {address}")
    remark("anybody with this address can look; Ctrl-C ends it")
    try:
        uvicorn.Server(config).run(sockets=[listener])
    finally:
        pages.close()
        spark.close()
    return answer({"address": address}, "")


def report(
    context: Context,
    shard: ShardArgument,
    out: Annotated[Path, typer.Option("--out", help="HTML file to write.")],
    where: Annotated[
        list[str] | None,
        typer.Option("--where", help="Filter in Spark SQL; repeat. Default: those used lately."),
    ] = None,
) -> Answer:
    """Write everything about a shard as one page that needs no network."""
    pages, spark = _pages(context)
    try:
        with busy(f"drawing {shard}"):
            text = pages.file(shard, tuple(where or ()))
    finally:
        pages.close()
        spark.close()
    with written_whole(out, "the report") as file:
        file.write(text.encode())
    return answer({"shard": shard, "out": str(out), "bytes": out.stat().st_size})


class WarmSpark:
    """A Spark session that starts with the first filter and stays until `close`."""

    def __init__(self, context: Context) -> None:
        """Nothing is started yet."""
        self._context, self._stack = context, ExitStack()
        self._spark: Any = None

    def __call__(self, relation: Relation, where: str) -> Filter:
        """Analyse a filter, admitted as an expression only.

        Raises: InvalidRequest, also for a Java that is missing.
        """
        from strata.cli.spark import session
        from strata.spark.front.admit import admitted

        if self._spark is None:
            self._spark = self._stack.enter_context(session(self._context))
        return admitted(self._spark, relation, where)

    def close(self) -> None:
        """Stop the session if there is one."""
        self._stack.close()
        self._spark = None


def _pages(context: Context) -> "tuple[ConsolePages, WarmSpark]":
    """Return what makes the pages, and what has to be closed in the end."""
    with needed("ui", "the console"):
        from strata.ui.helped import MEASURED_BYTES, Measured
        from strata.ui.pages import ConsolePages
        from strata.ui.what_if import Analyst
    from strata.advise import advise

    stores, settings, spark = context.stores, context.settings, WarmSpark(context)

    def measure(state: State, filter: Filter) -> Mapping[str, Any]:
        used = [unread(filter)]
        return advise(stores, state, settings, used, bytes_max=MEASURED_BYTES).to_json()

    analyst = Analyst(stores, settings, spark)
    return ConsolePages(stores, settings, analyst, measured=Measured(measure)), spark
