"""The command that takes tables of other formats in: adopt."""

from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import unquote, urlsplit

import typer

from strata.adopt.in_place import InPlace
from strata.adopt.peer import Peer
from strata.adopt.run import Adopted, adopt_table
from strata.cli.command import command
from strata.cli.context import Answer, Context, ReasonOption, ShardArgument, answer
from strata.cli.remarks import remark
from strata.cli.tables import pairs, shown_bytes
from strata.cli.visible import shown_count
from strata.config.folder import yaml_line
from strata.errors import InvalidRequest
from strata.ingest.readers.column_names import proposed_names
from strata.ingest.readers.guess import guess_arrow
from strata.model.extras import needed

FORMATS: Final = ("delta", "iceberg")


def register(app: typer.Typer) -> None:
    """Add this command to the application."""
    command(app, "adopt", adopt, row="adopt")


def adopt(
    context: Context,
    shard: ShardArgument,
    source: Annotated[
        str,
        typer.Option(
            "--from",
            help="Folder or address of the table; of Iceberg also a metadata file, or with "
            "--catalog NAMESPACE.TABLE.",
        ),
    ],
    format: Annotated[
        str | None,
        typer.Option("--format", help="delta or iceberg; default: what the folder shows."),
    ] = None,
    catalog: Annotated[
        str,
        typer.Option(
            "--catalog", help="Catalog of PyIceberg's configuration, or sqlite:////file.db."
        ),
    ] = "",
    version: Annotated[
        int | None, typer.Option("--version", help="Version of a Delta table.", min=0)
    ] = None,
    snapshot: Annotated[
        int | None, typer.Option("--snapshot", help="Snapshot of an Iceberg table.")
    ] = None,
    replace: Annotated[
        bool,
        typer.Option(
            "--replace", help="Retract what the shard holds, and take the whole table in."
        ),
    ] = False,
    in_place: Annotated[
        bool,
        typer.Option(
            "--in-place",
            help="Leave files that are sorted runs where they are; parts refer to them.",
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be read.")
    ] = False,
    reason: ReasonOption = "",
) -> Answer:
    """Take a table of Delta or Iceberg in, or what changed in it since the last time.

    Afterwards the shard equals the table. Nobody else writes to it.
    """
    kind = format or _kind(source, catalog)
    if kind not in FORMATS:
        raise InvalidRequest("no such format of tables", format=kind, cure=" or ".join(FORMATS))
    strange = {"--version": kind != "delta" and version is not None}
    strange |= {"--snapshot": kind != "iceberg" and snapshot is not None}
    strange |= {"--catalog": kind != "iceberg" and bool(catalog)}
    for option, given in strange.items():
        if given:
            raise InvalidRequest("a table of this format has none", format=kind, option=option)
    peer = _opened(kind, source, catalog)
    wanted = version if kind == "delta" else snapshot
    if shard not in context.machine.names():
        raise _undeclared(shard, peer, wanted)
    done = adopt_table(
        context.stores,
        context.settings,
        shard,
        peer,
        wanted=wanted,
        all_anew=replace,
        dry_run=dry_run,
        in_place=InPlace() if in_place else None,
    )
    _remark(done)
    document = done.to_json() | ({"reason": reason} if reason else {})
    return answer(document, pairs("", document))


def _opened(kind: str, source: str, catalog: str) -> Peer:
    with needed(kind, f"a table of {kind.capitalize()}"):
        if kind == "delta":
            from strata.adopt.delta import DeltaPeer

            return DeltaPeer.open(source)
        from strata.adopt.iceberg import IcebergPeer

        return IcebergPeer.open(source, catalog)


def _kind(source: str, catalog: str) -> str:
    """Return the format of the table at an address. Raises: InvalidRequest if it is not seen."""
    if catalog or source.endswith(".metadata.json"):
        return "iceberg"
    split = urlsplit(source)
    folder = Path(unquote(split.path) if split.scheme == "file" else source)
    if (folder / "_delta_log").is_dir():
        return "delta"
    if (folder / "metadata").is_dir():
        return "iceberg"
    raise InvalidRequest(
        "nothing shows the format of this table",
        table=source,
        cure="--format delta or --format iceberg; plain files: strata ingest SHARD --from FOLDER",
    )


def _undeclared(shard: str, peer: Peer, wanted: int | None) -> InvalidRequest:
    """Return the error for a shard that is not there, with the columns that it needs."""
    columns = peer.version(wanted).columns
    names = {name: column for name, (column, _) in proposed_names(columns.names).items()}
    said: dict[str, Any] = {"name": shard, "columns": []}
    for one in columns:
        kind = guess_arrow(one.type)
        said["columns"].append({"name": names.get(one.name, one.name), "type": kind})
    if names:
        said["source"] = {"names": names}
    return InvalidRequest(
        "no such shard; the columns of a shard are declared first",
        shard=shard,
        table=peer.address,
        cure=f"strata create {shard} --spec FILE, which says: {yaml_line(said)}",
    )


def _remark_places(shard: str, places: InPlace) -> None:
    files, size = shown_count(places.files, "file"), shown_bytes(places.size_bytes)
    remark(
        f"{shard}: {files} ({size}) stay where they are, {shown_bytes(places.stored_bytes)} here;"
        " adopt again before the table's owner removes old files"
    )


def _remark(done: Adopted) -> None:
    if done.feed_failed:
        remark(
            f"{done.shard}: the change feed could not be used, files were read: {done.feed_failed}"
        )
    if done.in_place is not None and done.in_place.files:
        _remark_places(done.shard, done.in_place)
    for reason, count in done.in_place.reasons.items() if done.in_place is not None else ():
        remark(f"{done.shard}: written anew: {reason} ({count:,})")
    if done.taken_in:
        size = shown_bytes(sum(one.size_bytes for one in done.taken_in))
        remark(f"{done.shard}: {shown_count(len(done.taken_in), 'file')} ({size}) taken in")
    if done.already_adopted:
        remark(f"{done.shard}: version {done.version} is in; nothing was changed")
    elif done.report is not None and done.report.counts.rejected:
        remark(
            f"{done.shard}: {shown_count(done.report.counts.rejected, 'row')} could not be stored"
            f" exactly; strata quarantine show {done.shard}"
        )
