"""Commands about erasure: erase, erasures."""

from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from strata.cli.command import command
from strata.cli.context import (
    Answer,
    Context,
    ReasonOption,
    ShardArgument,
    WhoOption,
    answer,
)
from strata.cli.remarks import remark
from strata.cli.tables import pairs, rows
from strata.errors import Corrupt, InvalidRequest, Unavailable
from strata.publish.follow import expire_published
from strata.store.open import beyond_deletion
from strata.store.whole_file import written_whole

FOUND = ("shard", "rows", "parts", "batches", "bytes", "held_by")
SHOWN: Final = "`strata erasures SHARD --id ID` shows it"
ISSUED = ("id", "by", "ended", "rows", "parts", "complete")


def register(app: typer.Typer) -> None:
    """Add these commands to the application."""
    command(
        app, "erase", erase, row="erase", idle=lambda given: not given.get("confirm"), private=True
    )
    command(app, "erasures", erasures)


def erase(
    context: Context,
    shard: ShardArgument,
    where: Annotated[str, typer.Option("--where", help="The rows to erase, in Spark SQL.")],
    terms: Annotated[
        list[str] | None,
        typer.Option(
            "--term",
            help="A text that names the person, to look for in rejected rows, logs and verdicts; "
            "repeat for more. The texts in --where are looked for anyway.",
        ),
    ] = None,
    confirm: Annotated[
        str, typer.Option("--confirm", help="The code that the first step has shown.")
    ] = "",
    wait: Annotated[
        float, typer.Option("--wait", min=0, help="Seconds to wait for readers and writers.")
    ] = 900.0,
    out: Annotated[
        Path | None, typer.Option("--out", help="File to write the certificate to, for people.")
    ] = None,
    by: WhoOption = None,
    reason: ReasonOption = "",
) -> Answer:
    """Erase rows for good, from all stored bytes; without --confirm only say what would go.

    The second step takes the code, a person and a reason, and issues a certificate. It may be
    repeated until it is done.
    """
    from strata.cli.spark import session
    from strata.erase import Eraser, ErasureRequest, Waiting, as_text, moment_of
    from strata.spark.find import SparkFinder
    from strata.spark.front.admit import admitted
    from strata.spark.runner import spark_runner

    request = ErasureRequest(shard, where, tuple(terms or ()))
    if confirm and confirm != request.code:
        raise InvalidRequest(
            "this code confirms another erasure",
            shard=shard,
            cure="run without --confirm, look at what would go, and use the code that it shows",
        )
    if confirm and not reason.strip():
        raise InvalidRequest("to erase takes a reason", cure="--reason")
    state, stores = context.machine.load(shard), context.stores
    at_ms = moment_of(state, request, stores.clock)
    with session(context) as spark:
        filter = admitted(spark, state.relation, where, now=at_ms * 1000)
        eraser = Eraser(
            stores,
            request,
            filter,
            SparkFinder(spark, stores.settings, filter),
            spark_runner(spark),
            Waiting(wait),
            remark,
            beyond_deletion(stores),
            partial(_expired, context),
        )
        if not confirm:
            return _planned(eraser.plan())
        found = eraser.erase(at_ms=at_ms, by=context.person(by).name, reason=reason.strip())
    text = as_text(found)
    if out is not None:
        with written_whole(out, "the certificate, which is issued,", SHOWN) as file:
            file.write(text.encode())
    return answer(found, text, code=0 if found["complete"] else 1)


def _expired(context: Context, shard: str) -> None:
    """Let the shard's own published table go on to the newest state, which none waits for."""
    try:
        if expire_published(context.stores, context.settings, shard):
            remark(f"{shard}: the published table shows the newest state only")
    except (Corrupt, InvalidRequest, Unavailable) as error:  # its hold is waited for, and named
        remark(f"{shard}: the published table stays as it is: {error}")


def _planned(document: dict[str, Any]) -> Answer:
    shown = {key: value for key, value in document.items() if key != "confirm"}
    again = f"Nothing was changed. To erase these rows, add: --confirm {document['confirm']}\n"
    return answer(
        document, rows("rows to erase", document["shards"], FOUND), pairs("", shown), again
    )


def erasures(
    context: Context,
    shard: ShardArgument,
    id: Annotated[str, typer.Option("--id", help="Show this certificate.")] = "",
) -> Answer:
    """List the certificates of a shard's erasures, or show one."""
    from strata.erase import as_text, certificates

    found = certificates(context.stores, shard)
    if id:
        chosen = next((one for one in found if one["id"] == id), None)
        if chosen is None:
            known = ", ".join(one["id"] for one in found) or "there is none"
            raise InvalidRequest("no such certificate", id=id, cure=f"one of: {known}")
        return answer(chosen, as_text(chosen))
    under_way = context.machine.load(shard).erasing
    lines: list[dict[str, Any]] = [
        {**one, "parts": len(one["rewritten"]), "ended": one["ended_ms"]} for one in found
    ]
    issued = [{name: line[name] for name in ISSUED} for line in lines]
    document = {
        "shard": shard,
        "certificates": issued,
        "under_way": None if under_way is None else under_way.id,
    }
    certificates_of = rows(f"certificates of {shard}", issued, ISSUED)
    return answer(document, certificates_of, pairs("", document))
