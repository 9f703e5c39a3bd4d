"""Commands about garbage: gc plan, run, leaks, restore."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any

import typer

from strata import gc
from strata.cli.context import ConfigOption, Context, JsonOption, answer, pairs, rows
from strata.cli.noted import noted
from strata.errors import InvalidRequest
from strata.gc.sweep import SweepReport, purge
from strata.gc.verdicts import Fate
from strata.model.runner import threads
from strata.model.settings import Settings
from strata.store.keys import parse_key

DELETERS = 8  # deletes under way at a time: they wait for the store, not for this machine

Shards = Annotated[
    list[str] | None, typer.Argument(help="Names of shards; none: all of them.", metavar="[SHARD]…")
]
Grace = Annotated[
    int | None,
    typer.Option(
        "--grace-ms", min=0, help="Instead of gc.grace_ms: readers and writers have so long."
    ),
]
BLOBS = ("key", "bytes", "kind", "fate", "reason")
COUNTS = ("shard", "generation", "fence", *(fate.value for fate in Fate), "dead_bytes", "deleted")


def register(app: typer.Typer) -> None:
    """Add these commands to the application."""
    group = typer.Typer(help="Find and delete what nobody can need.", no_args_is_help=True)
    group.command("plan")(plan)
    group.command("run")(noted("sweep")(run))
    group.command("leaks")(leaks)
    group.command("restore")(noted("restore")(restore))
    app.add_typer(group, name="gc")


def plan(
    shards: Shards = None,
    every: Annotated[
        bool, typer.Option("--every", help="Tell of the blobs that stay, too, and why.")
    ] = False,
    grace_ms: Grace = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Say which blobs a sweep would delete now, and why; change nothing."""
    context = Context(config)
    settings = _settings(context, grace_ms)
    _answer(
        [gc.plan(context.stores, name, settings, every=every) for name in _names(context, shards)],
        json,
    )


def run(
    shards: Shards = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="The same as `gc plan`.")] = False,
    grace_ms: Grace = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Delete the blobs that nobody can need; for some days they can be restored."""
    if dry_run:
        plan(shards, grace_ms=grace_ms, config=config, json=json)
        return
    context = Context(config)
    settings, delete = _settings(context, grace_ms), threads(DELETERS)
    names = _names(context, shards)
    reports = [gc.collect(context.stores, name, settings, delete) for name in names]
    _answer(reports, json, purged_bytes=purge(context.stores, settings))


def leaks(shards: Shards = None, config: ConfigOption = None, json: JsonOption = False) -> None:
    """Compare what is stored with what should be; exit code 1 if anything is wrong."""
    context = Context(config)
    report = gc.find_leaks(context.stores, context.settings, shards or None)
    document = report.document()
    missing = [{"key": key} for key in document["missing"]]
    answer(
        document, json, rows("shards", document["shards"], COUNTS[:-1]),
        rows("named by a state, and not stored", missing, ("key",)),
        rows("stored, and should not be", document["leaks"], ("key", "bytes", "kind", "reason")),
    )  # fmt: skip
    if not report.clean:
        raise typer.Exit(1)


def restore(
    keys: Annotated[list[str], typer.Argument(help="Keys of blobs that were deleted.")],
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Bring deleted blobs back, while the store still has them aside."""
    context = Context(config)
    for key in keys:
        parse_key(key)
        context.stores.blob.restore(key)
    answer({"restored": keys}, json, rows("restored", [{"key": key} for key in keys], ("key",)))


def _names(context: Context, shards: Sequence[str] | None) -> list[str]:
    known = context.machine.names(dropped=True)
    for name in shards or ():
        if name not in known:
            raise InvalidRequest("no such shard", shard=name, cure=f"one of: {', '.join(known)}")
    return list(shards or known)


def _settings(context: Context, grace_ms: int | None) -> Settings:
    settings = context.settings
    if grace_ms is None:
        return settings
    return replace(settings, gc=replace(settings.gc, grace_ms=grace_ms))


def _answer(reports: Sequence[SweepReport], as_json: bool, **totals: Any) -> None:
    found = [report.document() for report in reports]
    blobs = [
        one for document in found for one in (*document["dead_blobs"], *document["other_blobs"])
    ]
    document = {
        "shards": found,
        **totals,
        **{f"{n}": sum(d[n] for d in found) for n in ("dead", "dead_bytes", "deleted")},
    }
    answer(
        document, as_json, rows("shards", found, COUNTS), rows("blobs", blobs, BLOBS),
        pairs("", document),
    )  # fmt: skip
