"""Commands about backups: backup, backups, restore, verify."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from strata.backup import (
    Backup,
    Point,
    SavedShard,
    VerifyReport,
    back_up,
    drop_points,
    verify_point,
    verify_shard,
)
from strata.backup import restore as bring_back
from strata.cli.command import command
from strata.cli.context import (
    Answer,
    Context,
    ReasonOption,
    SomeShards,
    WhoOption,
    answer,
)
from strata.cli.remarks import remark
from strata.cli.tables import pairs, rows
from strata.errors import Corrupt, InvalidRequest
from strata.model.journals import REJECTED
from strata.model.runner import threads
from strata.model.settings import StoreSettings
from strata.model.time import format_time
from strata.rollout.policy import book_of
from strata.store.open import open_blob

AT_ONCE = 8  # blobs under way: they wait for the stores, not for this machine

Target = Annotated[
    str,
    typer.Argument(help="Where the backup lies: file:///folder or s3://bucket/prefix."),
]
PointOption = Annotated[str, typer.Option("--point", help="Name of a point; default: the newest.")]
WRONG = ("key", "what", "cure")
SAVED = ("shard", "seqno", "upper", "blobs", "bytes")


def register(app: typer.Typer) -> None:
    """Add these commands to the application."""
    command(app, "backup", backup, row="backup")
    command(
        app, "backups", backups, row="drop of a point", idle=lambda given: not given.get("drop")
    )
    command(app, "restore", restore, row="restore from a backup")
    command(app, "verify", verify)


def backup(context: Context, target: Target, shards: SomeShards = None) -> Answer:
    """Add a point to a backup: all blobs that it lacks, and the states of the shards.

    History that is damaged in the store is saved so and listed; the exit code is 1 then.
    """
    report = back_up(
        context.stores, _open(target), context.settings, shards or None, threads(AT_ONCE)
    )
    document = report.to_json()
    return answer(
        document,
        rows("shards", document["shards"], SAVED),
        pairs("", document),
        rows("damaged, and saved so", document["damaged"], WRONG),
        code=1 if report.damaged else 0,
    )


def backups(
    context: Context,
    target: Target,
    drop: Annotated[
        list[str] | None,
        typer.Option("--drop", help="Remove this point for good; repeat for more."),
    ] = None,
) -> Answer:
    """List the points of a backup, oldest first; with --drop remove some before."""
    found = Backup(_open(target))
    if drop:
        done = drop_points(found, drop, context.stores.clock())
        remark(f"{len(done.points)} points are gone, and {done.blobs:,} blobs of them")
    points: list[Point] = []
    damaged: list[str] = []
    for name in found.names():
        try:
            points.append(found.point(name))
        except Corrupt as error:
            damaged.append(name)
            remark(str(error))
    lines = [
        {
            "point": point.name,
            "taken": format_time(point.at_ms),
            "shards": len(point.shards),
            "blobs": sum(one.blobs for one in point.shards),
            "bytes": sum(one.size_bytes for one in point.shards),
            "by": point.by,
        }
        for point in points
    ]
    columns = ("point", "taken", "shards", "blobs", "bytes", "by")
    document = {"points": lines, "damaged": damaged}
    return answer(document, rows("points", lines, columns), code=1 if damaged else 0)


def restore(
    context: Context,
    target: Target,
    shards: SomeShards = None,
    point: PointOption = "",
    missing: Annotated[
        bool, typer.Option("--missing", help="Leave shards that exist alone, without an error.")
    ] = False,
    by: WhoOption = None,
    reason: ReasonOption = "",
) -> Answer:
    """Bring shards back from a backup; each begins in mode soft at most.

    A shard that exists is never replaced. Exit code 1: all are back, perhaps with rows that were
    erased since the point; `erased_since` names these erasures.
    """
    if not reason.strip():
        raise InvalidRequest("to restore takes a reason", cure="--reason")
    found = Backup(_open(target))
    report = bring_back(
        context.stores,
        found,
        point=point,
        names=shards or None,
        missing=missing,
        by=context.person(by).name,
        reason=reason.strip(),
        runner=threads(AT_ONCE),
    )
    if report.shards and book_of(context.stores)[1] is None:
        remark(
            "this store has no policy of its own, and no backup has one: the built-in thresholds"
            " hold, and anybody but the asker may approve (`strata rollout gates`)"
        )
    for shard, last in () if shards or point else sorted(found.only_before(report.point).items()):
        remark(f"{shard}: only earlier points have it, the last one is {last} (--point {last})")
    document = report.to_json()
    again = [one for one in report.shards if one.erased_since]
    for one in again:
        ids = ", ".join(one.erased_since)
        remark(
            f"{one.shard}: rows may be back that were erased since the point was taken ({ids}): "
            f"run `strata erase {one.shard.removesuffix(REJECTED)}` again with the same --where "
            "and --term"
        )
    columns = ("shard", "seqno", "upper", "mode", "blobs", "copied", "copied_bytes")
    shown = rows(f"from {report.point.name}", document["shards"], columns)
    return answer(document, shown, code=1 if again else 0)


def verify(
    context: Context,
    shards: SomeShards = None,
    target: Annotated[
        str, typer.Option("--backup", help="Verify a point of this backup, not the store.")
    ] = "",
    point: PointOption = "",
) -> Answer:
    """Read every blob that shards need, and their history; exit 1 if one is damaged or missing."""
    run = threads(AT_ONCE)
    if target:
        found = Backup(_open(target))
        chosen = found.point(point)
        reports = [verify_point(found, chosen, one, run) for one in _chosen(chosen.shards, shards)]
    else:
        names = shards or context.machine.names()
        reports = [verify_shard(context.stores, name, context.settings, run) for name in names]
    return _verified(reports)


def _chosen(saved: Sequence[SavedShard], names: Sequence[str] | None) -> list[SavedShard]:
    unknown = sorted({*(names or ())} - {one.name for one in saved})
    if unknown:
        raise InvalidRequest("this point has no such shard", shards=", ".join(unknown))
    return [one for one in saved if not names or one.name in names]


def _verified(reports: Sequence[VerifyReport]) -> Answer:
    shards = [report.to_json() for report in reports]
    wrong: list[dict[str, Any]] = [one for shard in shards for one in shard["wrong"]]
    document = {"clean": not wrong, "shards": shards, "wrong": len(wrong)}
    return answer(
        document,
        rows("shards", shards, ("shard", "seqno", "blobs", "bytes")),
        rows("wrong", wrong, WRONG),
        code=1 if wrong else 0,
    )


def _open(target: str) -> Any:
    """Return the store of a backup. Raises: InvalidRequest says that it is the backup's address."""
    try:
        return open_blob(StoreSettings(blob=target))
    except InvalidRequest as error:
        if error.details.get("setting") != "store.blob":
            raise
        given = error.details.get("value")
        raise InvalidRequest(error.message, cure=error.cure, backup=given) from error
