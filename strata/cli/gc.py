"""Commands about garbage: gc plan, run, leaks, restore."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any

import typer

from strata import gc
from strata.cli.command import command
from strata.cli.context import Answer, Context, SomeShards, answer
from strata.cli.tables import pairs, rows
from strata.errors import InvalidRequest
from strata.gc.sweep import SweepReport, purge
from strata.gc.verdicts import Fate
from strata.machine.names import nearest_shards
from strata.model.runner import threads
from strata.model.settings import Settings
from strata.store.keys import parse_key

DELETERS = 8  # concurrent deletes: they wait for the store, not for this machine

Grace = Annotated[
    int | None,
    typer.Option(
        "--grace-ms", min=0, help="Overrides gc.grace_ms: the time left to readers and writers."
    ),
]
BLOBS = ("key", "bytes", "kind", "fate", "reason")
COUNTS = ("shard", "generation", "fence", *(fate.value for fate in Fate), "dead_bytes", "deleted")


def register(app: typer.Typer) -> None:
    """Add these commands to the application."""
    group = typer.Typer(
        help="Find and delete blobs that are no longer needed.", no_args_is_help=True
    )
    command(group, "plan", plan)
    command(group, "run", run, row="sweep")
    command(group, "leaks", leaks)
    command(group, "restore", restore, row="restore")
    app.add_typer(group, name="gc")


def plan(
    context: Context,
    shards: SomeShards = None,
    every: Annotated[
        bool, typer.Option("--every", help="Also list the blobs that stay, and why.")
    ] = False,
    grace_ms: Grace = None,
) -> Answer:
    """Say which blobs a sweep would delete now, and why; change nothing."""
    settings = _settings(context, grace_ms)
    names = _names(context, shards)
    return _answer([gc.plan(context.stores, name, settings, every=every) for name in names])


def run(
    context: Context,
    shards: SomeShards = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="The same as `gc plan`.")] = False,
    grace_ms: Grace = None,
) -> Answer:
    """Delete blobs that are no longer needed; they can be restored for some days."""
    if dry_run:
        return plan(context, shards, grace_ms=grace_ms)
    settings, delete = _settings(context, grace_ms), threads(DELETERS)
    names = _names(context, shards)
    reports = [gc.collect(context.stores, name, settings, delete) for name in names]
    return _answer(reports, purged_bytes=purge(context.stores, settings))


def leaks(context: Context, shards: SomeShards = None) -> Answer:
    """Compare what is stored with what should be; exit code 1 if anything is wrong."""
    report = gc.find_leaks(context.stores, context.settings, shards or None)
    document = report.to_json()
    missing = [{"key": key} for key in document["missing"]]
    return answer(
        document,
        rows("shards", document["shards"], COUNTS[:-1]),
        rows("named by a state, and not stored", missing, ("key",)),
        rows("stored, and should not be", document["leaks"], ("key", "bytes", "kind", "reason")),
        code=0 if report.clean else 1,
    )


def restore(
    context: Context,
    keys: Annotated[list[str], typer.Argument(help="Keys of blobs that were deleted.")],
) -> Answer:
    """Bring deleted blobs back while the store still keeps them aside."""
    for key in keys:
        _check_key(key)
    for key in keys:
        context.stores.blob.restore(key)
    return answer({"restored": keys}, rows("restored", [{"key": key} for key in keys], ("key",)))


def _check_key(key: str) -> None:
    try:
        parse_key(key)
    except InvalidRequest as error:
        raise InvalidRequest(
            "not the key of a blob of a shard",
            key=key,
            cure="a whole key, such as shards/NAME/parts/…, as `gc run` listed it; "
            "a whole shard comes back with `strata restore`",
        ) from error


def _names(context: Context, shards: Sequence[str] | None) -> list[str]:
    known = context.machine.names(dropped=True)
    for name in shards or ():
        if name not in known:
            raise InvalidRequest("no such shard", shard=name, cure=nearest_shards(name, known))
    return list(shards or known)


def _settings(context: Context, grace_ms: int | None) -> Settings:
    settings = context.settings
    if grace_ms is None:
        return settings
    return replace(settings, gc=replace(settings.gc, grace_ms=grace_ms))


def _answer(reports: Sequence[SweepReport], **totals: Any) -> Answer:
    found = [report.to_json() for report in reports]
    blobs = [
        one for document in found for one in (*document["dead_blobs"], *document["other_blobs"])
    ]
    document = {
        "shards": found,
        **totals,
        **{f"{n}": sum(d[n] for d in found) for n in ("dead", "dead_bytes", "deleted")},
    }
    return answer(
        document,
        rows("shards", found, COUNTS),
        rows("blobs", blobs, BLOBS),
        pairs("", document),
    )
