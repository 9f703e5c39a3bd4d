"""The command that measures what would help a shard's reads: advise."""

from typing import Annotated, Final

import typer

from strata.advise import Advice, Advised, carry_out
from strata.advise import advise as advise_shard
from strata.cli.command import command
from strata.cli.context import (
    Answer,
    Context,
    ReasonOption,
    ShardArgument,
    WhoOption,
    answer,
)
from strata.cli.explain import understood
from strata.cli.explained import advice_tables
from strata.cli.maintain import TASKS
from strata.cli.remarks import busy, remark
from strata.cli.tables import Table, rows
from strata.errors import InvalidRequest
from strata.history import usage
from strata.model.runner import threads
from strata.model.time import parse_time

MIB: Final = 1 << 20
_FILTERS: Final = ("filter", "reads", "parts_before", "bytes_before")


def register(app: typer.Typer) -> None:
    """Add this command to the application."""
    command(app, "advise", advise, row="advise", idle=lambda given: not given.get("apply"))


def advise(
    context: Context,
    shard: ShardArgument,
    where: Annotated[
        list[str] | None,
        typer.Option(
            "--where", help="Filter in Spark SQL, in place of those that readers used; repeat."
        ),
    ] = None,
    now: Annotated[str | None, typer.Option("--now", help="What now() means in --where.")] = None,
    mib: Annotated[
        int, typer.Option("--mib", min=1, help="MiB of parts to copy into memory at most.")
    ] = 256,
    apply: Annotated[
        str, typer.Option("--apply", help="Carry out the advice that has shown this id.")
    ] = "",
    by: WhoOption = None,
    reason: ReasonOption = "",
) -> Answer:
    """Say what would have skipped more of the reads of late, measured, and what it costs."""
    state = context.machine.load(shard)
    if where:
        at = None if now is None else parse_time(now) * 1000
        used = [usage.unread(understood(context, state, one, at)) for one in where]
    else:
        logged = usage.recent(context.stores, shard, context.settings.usage)
        used = [one for one in logged if usage.reads_columns_of(state.relation, one.filter)]
    if not used:
        raise InvalidRequest(
            "no filter of readers is in the log",
            shard=shard,
            cure="give one with --where; reads with a filter are logged where usage.log is on",
        )
    with busy(f"measuring advice on {shard}"):
        found = advise_shard(context.stores, state, context.settings, used, bytes_max=mib * MIB)
    document = {**found.to_json(), "applied": apply}
    if apply:
        one = _chosen(found, apply)
        carry_out(
            context.stores,
            context.settings,
            state,
            one.candidate.spec,
            one.steps,
            runner=threads(TASKS),
            log=remark,
        )
    return answer(document, *_shown(found, apply))


def _chosen(found: Advised, id: str) -> Advice:
    for one in found.advice:
        if one.id == id:
            return one
    known = ", ".join(one.id for one in found.advice) or "there is none"
    raise InvalidRequest("no such advice today", id=id, cure=f"one of: {known}")


def _shown(found: Advised, applied: str) -> list[Table | str]:
    title = "filters, and what each fetches of these parts"
    tables = [rows(title, found.to_json()["filters"], _FILTERS), *advice_tables(found)]
    if applied:
        one = _chosen(found, applied)
        more = f" Write `{one.candidate.yaml}` into its file, too." if one.candidate.yaml else ""
        return [*tables, f"Done: {one.candidate.what}.{more}\n"]
    if found.advice:
        shard = found.shard
        tables.append(f"Nothing was changed: `strata advise {shard} --apply ID` carries one out.\n")
    return tables
