"""The command that keeps sums of a shard by groups in another shard."""

from typing import Annotated, Any, Final

import typer

from strata.cli.command import Given, command
from strata.cli.completion import shard_names
from strata.cli.context import Answer, Context, ReasonOption, answer
from strata.cli.remarks import busy, remark
from strata.cli.tables import rows
from strata.errors import Conflict, Corrupt, InvalidRequest
from strata.model.time import MIN_TIME, format_time
from strata.state.state import Batch
from strata.sums.check import check_sums
from strata.sums.follow import declared_sums
from strata.sums.run import maintain_sums
from strata.sums.wish import SumsWish, declared_wish

DIFFERENT: Final = 3  # exit code
LISTED: Final = ("source", "shard", "by", "upper", "batches_behind")
OneShard = Annotated[
    str, typer.Argument(help="Name of the shard.", metavar="SHARD", autocompletion=shard_names)
]


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    command(app, "sums", sums, row="sums", idle=_only_looks, about="into")


def _only_looks(given: Given) -> bool:
    return bool(given.get("check")) or not given.get("into")


def sums(
    context: Context,
    shard: OneShard = "",
    into: Annotated[
        str,
        typer.Option(
            "--into", help="Shard of the sums; the first run makes it. Without it: list the sums."
        ),
    ] = "",
    by: Annotated[
        str,
        typer.Option("--by", help="Columns that make a group: a,b; only the first run needs it"),
    ] = "",
    sum: Annotated[
        str, typer.Option("--sum", help="Columns to add up: c,d; without it rows are counted.")
    ] = "",
    min: Annotated[str, typer.Option("--min", help="Columns whose least value is kept: c,d")] = "",
    max: Annotated[
        str, typer.Option("--max", help="Columns whose greatest value is kept: c,d")
    ] = "",
    where: Annotated[str | None, typer.Option("--where", help="Plain filter in Spark SQL.")] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Only compare with the source; exit 3 if they differ.")
    ] = False,
    rebuild: Annotated[
        bool,
        typer.Option("--rebuild", help="Add the whole source up, and correct what differs."),
    ] = False,
    reason: ReasonOption = "",
) -> Answer:
    """Keep sums, counts, least and greatest values by groups in another shard, from changes."""
    if not into:
        if check or rebuild or by or sum or min or max or where:
            raise InvalidRequest("where are the sums kept?", cure="--into SHARD")
        return _listed(context, shard)
    if not shard:
        raise InvalidRequest(
            "the source of these sums is not named", cure="strata sums SHARD --into TARGET"
        )
    wish = SumsWish(shard, into, _names(by), _names(sum), where, _names(min), _names(max))
    if wish == SumsWish(shard, into, ()):
        wish = _known(context, wish)
    settings = context.settings.read
    if check and rebuild:
        raise InvalidRequest("one at a time", cure="--check without --rebuild")
    if not check:
        with busy(f"adding changes of {shard} to {into}"):
            report = maintain_sums(context.stores, wish, settings, rebuild=rebuild).to_json()
        return answer(report | ({"reason": reason} if reason else {}))
    with busy(f"comparing {into} with {shard}"):
        found = check_sums(context.stores, wish, settings)
    if found.different:
        remark(
            f"{into}: {found.different:,} groups differ from {shard}; the first is {found.first}"
        )
    return answer({"shard": into, **found.to_json()}, code=DIFFERENT if found.different else 0)


def _listed(context: Context, shard: str) -> Answer:
    machine = context.machine
    found: list[dict[str, Any]] = []
    for source, wishes in sorted(declared_sums(context.stores).items()):
        if shard not in ("", source):
            continue
        batches: tuple[Batch, ...] = ()
        why: str | None = None
        try:
            batches = machine.load(source).batches
        except (Conflict, Corrupt, InvalidRequest) as error:  # the other sums go on
            why = str(error)
            remark(f"{source}: {why}")
        for wish in wishes:
            upper = machine.load(wish.target).upper
            behind = [one for one in batches if one.manifest and one.upper > upper]
            found.append(
                {
                    "source": source,
                    "shard": wish.target,
                    "by": ",".join(wish.by),
                    "upper": None if upper == MIN_TIME else format_time(upper),
                    "batches_behind": len(behind) if why is None else None,
                    "unreadable_source": why,
                }
            )
    return answer({"sums": found}, rows("kept sums", found, LISTED))


def _known(context: Context, wish: SumsWish) -> SumsWish:
    """Return what the target is declared to hold."""
    if wish.target not in context.machine.names():
        return wish  # an error says what is missing
    return declared_wish(context.machine.load(wish.target).spec) or wish


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for name in (part.strip() for part in text.split(",")) if name)
