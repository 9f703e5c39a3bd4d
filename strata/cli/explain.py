"""The command that says what a filter would skip, and why not more: explain."""

from pathlib import Path
from typing import Annotated, Final

import typer

from strata.audit.receipts import issue, write_receipt
from strata.cli.command import command
from strata.cli.context import Answer, Context, ShardArgument, answer
from strata.cli.explained import advice_tables, explain_tables, static_tables
from strata.cli.reading import AsOf
from strata.cli.remarks import remark
from strata.decide.causes import Cause
from strata.decide.explain import explain_filter
from strata.decide.plan import plan_read
from strata.decide.static import outlook
from strata.expr.filter import Filter
from strata.history.usage import unread
from strata.model.time import parse_time
from strata.plain.parse import plain_or_none
from strata.read.moments import resolve_moment
from strata.state.state import State

# One line per paragraph: the help is wrapped when it is shown.
_EXPLAIN: Final = (
    "Say which parts a filter would skip, and what stops the proof for the others.\n\n"
    "Looks at statistics only, never at rows, as if pushdown were on. Shows how many batches, "
    "parts and row groups are left. Says why parts are kept, largest first, with the "
    "sub-expression that stopped the proof and what would help. Says what skips the others.\n\n"
    "\b\n"
    'strata explain flights --where "at > now() - interval 1 day"\n'
    "strata explain flights --where \"get_json_object(payload, '$.delay') > 60\" --parts\n"
    "strata explain flights --where \"upper(carrier) = 'AA'\" --static\n"
    'strata explain flights --where "delay > 60" --receipt why.json'
)


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    command(app, "explain", explain, help=_EXPLAIN)


def explain(
    context: Context,
    shard: ShardArgument,
    where: Annotated[str, typer.Option("--where", help="Filter in Spark SQL.")],
    as_of: AsOf = None,
    now: Annotated[str | None, typer.Option("--now", help="What now() means.")] = None,
    parts: Annotated[bool, typer.Option("--parts", help="List every part and why.")] = False,
    static: Annotated[
        bool,
        typer.Option("--static", help="Only say if it could ever skip a part. Reads no manifest."),
    ] = False,
    receipt: Annotated[
        Path | None,
        typer.Option("--receipt", help="File to write the decision to, for `strata replay`."),
    ] = None,
    measured: Annotated[
        bool,
        typer.Option("--advise", help="Also measure what would skip more, on a copy of parts."),
    ] = False,
) -> Answer:
    """Say which parts a filter would skip, and what stops the proof for the others."""
    state = context.machine.load(shard)
    filter = understood(context, state, where, None if now is None else parse_time(now) * 1000)
    if static:
        found = outlook(filter, state.rollout.quarantine).to_json()
        return answer({"shard": shard, "filter": where, **found}, *static_tables(shard, found))
    at = resolve_moment(context.stores, state, as_of)
    explained = explain_filter(context.stores, state, filter, at, every_part=parts)
    document = explained.to_json(parts=parts)
    if receipt is not None:
        plan = plan_read(context.stores, state, as_of=at, filter=filter, mode="on")
        write_receipt(receipt, issue(context.stores, state, plan, filter))
    if not measured:
        if any(group["cause"] == Cause.OVERLAP for group in document["kept_because"]):
            remark("--advise measures on the kept parts what would skip more of them")
        return answer(document, *explain_tables(document))
    from strata.advise import advise  # loads what merges and ingests

    advised = advise(context.stores, state, context.settings, [unread(filter)])
    document |= {"advised": advised.to_json()}
    return answer(document, *explain_tables(document), *advice_tables(advised))


def understood(context: Context, state: State, where: str, now: int | None) -> Filter:
    """Return what a filter means; Spark starts only for one that is not plain."""
    filter = plain_or_none(state.relation, where, now)
    if filter is not None:
        return filter
    from strata.cli.spark import analysed

    return analysed(context, state, where, now)
