"""The command that makes a shard to try everything on: demo."""

import shlex
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from strata.cli.command import command
from strata.cli.context import Answer, Context, answer
from strata.cli.orders import DECLARATION, FILTER, FIRST, write_orders
from strata.cli.remarks import busy, remark
from strata.cli.tables import pairs, shown_bytes
from strata.cli.visible import shown_count
from strata.config.shards import ensure_shards
from strata.errors import InvalidRequest
from strata.history.metrics import Metrics
from strata.history.operations import note
from strata.ingest.engine import ingest as ingest_files
from strata.machine.machine import Machine
from strata.model.runner import threads
from strata.model.settings import Settings, StoreSettings
from strata.model.time import parse_time
from strata.store.cures import unwritable
from strata.store.open import open_stores

SHARD: Final = "orders"
TASKS: Final = 2  # threads that parse and encode files
# Of the time in which the files are ingested: three batches, as three runs of a DAG would write.
INTERVAL: Final = timedelta(days=30)
TRY: Final = (
    "strata shards",
    "strata read orders --where \"placed_at >= '2026-05-29' and total > 520\"",
    "strata explain orders --where \"placed_at between '2026-04-18' and '2026-04-19'\"",
    "strata history orders",
    "strata ui                     # with the extra [ui]: the same in a browser",
    "strata validate orders        # with the extra [spark]: check what a filter would skip",
)


def register(app: typer.Typer) -> None:
    """Add this command to the application."""
    command(app, "demo", demo)


def demo(
    context: Context,
    folder: Annotated[
        Path, typer.Argument(help="Folder to make; it may not have anything in it.")
    ] = Path("strata-demo"),
    files_only: Annotated[
        bool, typer.Option("--files-only", help="Only write the CSV files, as the tutorial does.")
    ] = False,
    days: Annotated[int, typer.Option("--days", min=1, max=366, help="One file a day.")] = 90,
    rows: Annotated[int, typer.Option("--rows", min=1, help="Orders of a day.")] = 4_000,
) -> Answer:
    """Make a folder with a shard of example orders, and say what to try on it. Needs no Java."""
    landing = folder / "landing" / SHARD
    document: dict[str, Any] = {"folder": str(folder), "files": days, "rows": days * rows}
    with _made(folder), busy(f"making {folder}"):
        write_orders(landing, days, rows)
        if files_only:
            return answer(
                document,
                f"{shown_count(days, 'file')} of {shown_count(rows, 'order')} in {landing}\n",
            )
        _declare(folder)
        document |= _ingested(folder, FIRST + timedelta(days=days))
    if context.settings_file:
        remark(f"commands would read {context.settings_file}: unset STRATA_CONFIG in {folder}")
    lines = [f"cd {shlex.quote(str(folder))}", *TRY]
    shown = document | {"bytes": shown_bytes(document["bytes"])}
    hints = "".join(f"  {line}\n" for line in lines)
    return answer(document | {"try": lines}, pairs("", shown), f"\nTry:\n{hints}")


@contextmanager
def _made(folder: Path) -> Iterator[None]:
    """Make the folder; take away what is in it if the block fails.

    Raises: InvalidRequest for a folder that has something in it; as `unwritable`.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InvalidRequest(
            "the folder has something in it",
            folder=str(folder),
            cure="name one that does not exist yet: strata demo FOLDER",
        )
    existed = folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException as error:
        _emptied(folder, gone=not existed)
        if isinstance(error, OSError):
            raise unwritable("the demo", error, folder=str(folder)) from error
        raise


def _emptied(folder: Path, *, gone: bool) -> None:
    with suppress(OSError):  # the reason is said already
        for inside in folder.iterdir():
            shutil.rmtree(inside) if inside.is_dir() else inside.unlink()
        if gone:
            folder.rmdir()


def _declare(folder: Path) -> None:
    """Write the declaration of the shard, and a filter that soft evaluation will watch."""
    for place, text in (("shards/orders", DECLARATION), ("filters/large_saturday", FILTER)):
        file = folder / "config" / f"{place}.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


def _ingested(folder: Path, end: date) -> dict[str, Any]:
    """Ingest the files; return the figures of the shard."""
    home = folder.absolute()
    # The places where the default settings look from inside the folder.
    store = StoreSettings(
        blob=f"file://{home}/.strata/blob",
        consensus=f"sqlite:///{home}/.strata/consensus.db",
        landing=str(home),
    )
    settings = replace(Settings(), store=store, shards_dir=str(home / "config" / "shards"))
    stores = open_stores(store)
    ensure_shards(Machine(stores), settings.shards_dir, [SHARD])
    lower = FIRST
    while lower < end:
        upper = min(lower + INTERVAL, end)
        began_ms = stores.clock()
        report = ingest_files(
            stores,
            settings,
            SHARD,
            lower=parse_time(str(lower)),
            upper=parse_time(str(upper)),
            runner=threads(TASKS),
        )
        note(stores, Metrics(), "ingest", began_ms, report.to_json(), 0)
        lower = upper
    batches = Machine(stores).load(SHARD).batches
    return {
        "shard": SHARD,
        "batches": len(batches),
        "parts": sum(b.parts for b in batches),
        "bytes": sum(b.size_bytes for b in batches),
    }
