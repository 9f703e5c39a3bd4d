"""Commands about one shard as a whole: create, inspect, history, drop."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Final

import orjson
import typer
import yaml

from strata.cli.command import command
from strata.cli.context import Answer, Context, ShardArgument, WhoOption, answer, who
from strata.cli.remarks import remark
from strata.cli.tables import pairs, rows
from strata.config.folder import yaml_mapping
from strata.errors import InvalidRequest
from strata.gc.drop import deleted_from, drop_shard, loss
from strata.history import operations
from strata.ingest.readers.infer import infer as infer_spec
from strata.model.spec import parse_spec
from strata.model.time import format_time
from strata.store.whole_file import written_whole

STATES: Final = (
    *("seqno", "at", "changed", "since", "upper"),
    *("batches", "parts", "updates", "mode", "commit"),
)
OPERATIONS: Final = ("at", "what", "who", "outcome", "rows", "bytes", "seconds", "error")


def register(app: typer.Typer) -> None:
    """Add these commands to the application."""
    command(app, "create", create, row="create", idle=_only_proposed)
    command(app, "inspect", inspect)
    command(app, "history", history)
    command(app, "drop", drop, row="drop")


def create(
    context: Context,
    name: Annotated[str, typer.Argument(help="Name of the shard; must equal the file's.")],
    spec: Annotated[
        Path | None, typer.Option("--spec", help="Declaration of the shard (YAML).")
    ] = None,
    infer: Annotated[
        str | None, typer.Option("--infer", help="File or folder to propose a declaration from.")
    ] = None,
    key: Annotated[
        str | None, typer.Option("--key", help="Key columns, separated by commas.")
    ] = None,
    format: Annotated[
        str | None, typer.Option("--format", help="Default: by the files' names.")
    ] = None,
    envelope: Annotated[str, typer.Option("--envelope", help="What a row means.")] = "append",
    encoding: Annotated[
        str | None,
        typer.Option("--encoding", help="Of CSV to infer from. Default: what the files show."),
    ] = None,
    header: Annotated[
        str | None,
        typer.Option("--header", help="Names of the fields, by commas, of CSV without a header."),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Write the proposal here.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Create what was inferred.")] = False,
    revive: Annotated[
        bool, typer.Option("--revive", help="Start empty under the name of a dropped shard.")
    ] = False,
) -> Answer:
    """Create a shard from its declaration; repeating it changes nothing.

    With --infer, a declaration is proposed and shown; --yes approves it.
    """
    text = ""
    if infer is not None:
        found = infer_spec(
            context.settings,
            name,
            infer,
            key=_listed(key),
            format=format,
            envelope=envelope,
            encoding=encoding,
            header=_listed(header),
        )
        text = yaml.safe_dump(found.declaration, sort_keys=False, default_flow_style=None)
        text += "".join(f"# {_printable(note)}\n" for note in found.notes)
        if out is not None:
            with written_whole(out, "the declaration") as file:
                file.write(text.encode())
        if not yes:
            remark("nothing was created: correct the proposal, or approve it with --yes")
            why = [asdict(one) for one in found.why]
            notes = list(found.notes)
            proposal = {"files": found.files, "rows": found.rows, "created": False, "why": why}
            proposal["notes"] = notes
            shown = rows("why", why, ("setting", "value", "because"))
            return answer({**proposal, "declaration": found.declaration}, text, shown)
        raw: Any = found.declaration
    elif spec is not None:
        raw = yaml_mapping(spec)
    else:
        raise _undeclared(name, context.settings.shards_dir)
    declared = parse_spec({"name": name, **raw})
    if declared.name != name:
        raise InvalidRequest(
            "the declaration names another shard", file=str(spec), name=declared.name, asked=name
        )
    context.machine.create(declared, revive=revive)
    made = context.shard(name).inspect()
    return answer(made, text, pairs("", made))


def _listed(names: str | None) -> list[str]:
    return [name.strip() for name in names.split(",")] if names else []


def _printable(note: str) -> str:
    """Return a note as one comment of YAML; it may repeat texts of the files."""
    return "".join(letter if letter.isprintable() else " " for letter in note)


def _undeclared(name: str, folder: str) -> InvalidRequest:
    """Return the error of `create` without a declaration; it names a file that has one."""
    found = Path(folder) / f"{name}.yaml"
    there = found.is_file()
    return InvalidRequest(
        "no declaration of the shard was given",
        shard=name,
        **({"file": str(found)} if there else {"shards_dir": folder}),
        cure=f"--spec {found}, or `strata ingest {name}`, which creates what its file declares"
        if there
        else f"--spec FILE, or --infer PATH; `strata apply` and `strata ingest` look in {folder}",
    )


def _only_proposed(given: Mapping[str, Any]) -> bool:
    return given.get("infer") is not None and not given.get("yes")


def inspect(context: Context, shard: ShardArgument) -> Answer:
    """Show a shard's frontiers, batches, runs, formats, statistics and mode."""
    document = context.shard(shard).inspect()
    flat = [
        {**b, "runs": len(b["runs"]), "parts": sum(r["parts"] for r in b["runs"])}
        for b in document["batches"]
    ]
    columns = ("lower", "upper", "since", "updates", "bytes", "runs", "parts")
    return answer(document, pairs(shard, document), rows("batches", flat, columns))


def history(
    context: Context,
    shard: ShardArgument,
    limit: Annotated[int, typer.Option("--limit", min=0, help="How many, newest first.")] = 20,
) -> Answer:
    """Show the last operations on a shard, and what each of its last commits changed."""
    entries = context.shard(shard).history(limit)
    done = [asdict(one) for one in operations.recent(context.stores, shard, limit)]
    shown = [
        {**one, "at": format_time(one["at_ms"]), "error": _error_of(one["details"])} for one in done
    ]
    return answer(
        {"shard": shard, "history": entries, "operations": done},
        rows("operations", shown, OPERATIONS),
        rows("states", entries, STATES),
    )


def _error_of(details: str) -> str:
    """Return the error in the details of an operation; empty: it had none."""
    found = orjson.loads(details).get("error") if details else ""
    return found if isinstance(found, str) else ""


def drop(
    context: Context,
    shard: ShardArgument,
    reason: Annotated[str, typer.Option("--reason", help="Why; kept in the tombstone.")] = "",
    yes: Annotated[
        str | None, typer.Option("--yes", help="The shard's name once more: yes, drop it.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be lost, drop nothing.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Also while readers or writers are at work.")
    ] = False,
    by: WhoOption = None,
) -> Answer:
    """Drop a whole shard; a tombstone stays, garbage collection deletes the blobs later."""
    state = context.machine.load(shard, dropped=True)
    document = {**loss(context.stores, state).to_json(), "dry_run": dry_run}
    if not dry_run:
        if yes != shard:
            raise InvalidRequest(
                "dropping a shard needs its name once more",
                shard=shard,
                updates=document["updates"],
                bytes=document["bytes"],
                cure=f"--dry-run shows what is lost; --yes {shard} drops it",
            )
        drop_shard(context.machine, shard, by=who(by), reason=reason, force=force)
        state = context.machine.load(shard, dropped=True)
    stone = state.dropped
    document["dropped"] = None if stone is None else asdict(stone)
    document["deleted_from_ms"] = deleted_from(state, context.settings)
    kinds = ("kind", "blobs", "bytes")
    return answer(document, pairs(shard, document), rows("blobs", document["kinds"], kinds))
