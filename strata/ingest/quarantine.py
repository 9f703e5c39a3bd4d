"""Rejected rows as a shard of their own: `NAME.rejected`, beside the shard NAME.

A run stores its rejected rows in blobs before its batch is committed; the commit names the blobs
(`Commit.rejects`). Then the rows are appended to the shard of rejected rows, under a token made
from the batch's token. If a run is killed in between, the next run appends them (`catch_up`).

`retry` gives the rows of one batch to the reader again, as a file that the ledger identifies by its
rows, so that two retries take them in once. Then the rows that could be read are retracted here.
"""

from base64 import b64decode
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, TypeAlias

import orjson
import pyarrow as pa

from strata.decide.plan import plan_read
from strata.errors import Corrupt, InvalidRequest
from strata.format.columns import D, T, updates_schema
from strata.format.part import Description
from strata.ingest.readers.kept import KEPT
from strata.machine.machine import Machine
from strata.machine.reader_hold import reading
from strata.model.journals import REJECTED
from strata.model.settings import ReadSettings
from strata.model.spec import ShardSpec, parse_spec
from strata.model.time import MIN_TIME
from strata.parts.write import write_batch, write_parts
from strata.read.scan import scan
from strata.state.state import Commit, State
from strata.state.transitions import find_commit
from strata.store import keys
from strata.store.interface import Blob
from strata.store.named import get_named
from strata.store.open import Stores
from strata.store.retry import retry
from strata.updates.order import sort_updates

SUFFIX: Final = REJECTED
RETRY: Final = "retry-"  # tokens of batches that take in rows of the quarantine
AGAIN: Final = "quarantine/"  # begins the names under which rejected rows are read again
MOVED: Final = "erased-"  # of the names of notes about erased rows
_Rows: TypeAlias = Sequence[dict[str, Any]]
TRIES: Final = 20  # for an append that other writers overtake
COLUMNS: Final = {
    "token": "string",  # of the batch that the row is missing from
    "number": "int64",  # of the row among its batch's rejected rows, from 0
    "file": "string",
    "line": "int64",
    "column_name": "string",
    "value": "string",
    "reason": "string",
    "raw": "bytes",
    "header": "string",  # of CSV, needed to read the row again; else see `kept`
}


@dataclass(frozen=True, slots=True)
class Rejected:
    """Rows of the quarantine that came from one batch, and can be read as one file, by number."""

    token: str
    rows: tuple[dict[str, Any], ...]


def rejected_shard(name: str) -> str:
    """Return the name of the shard of rejected rows."""
    return f"{name}{SUFFIX}"


def write_index(blob: Blob, name: str, token: str, found: Sequence[str]) -> str | None:
    """Store which blobs hold the rejected rows of a batch; None if there are none."""
    if not found:
        return None
    data = orjson.dumps(list(found))
    key = keys.quarantine_key(name, f"{token}/index-{keys.content_hash(data)}")
    retry(partial(blob.set, key, data))
    return key


def rows_of_index(blob: Blob, index: str) -> list[dict[str, Any]]:
    """Return the rejected rows of a batch in the order they were found in, but erased ones."""
    return [row for rows in files_of_index(blob, index) for row in rows]


def files_of_index(blob: Blob, index: str) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows of `rows_of_index` file by file; a task writes files of some MiB."""
    for key in orjson.loads(get_named(blob, index, "a list of rejected rows")):
        data = _left_of_file(blob, key)
        if data is not None:
            yield [orjson.loads(line) for line in data.splitlines()]


def _left_of_file(blob: Blob, key: str) -> bytes | None:
    """Return what is left of a file of rejected rows; None: all was erased. Raises: Corrupt."""
    standing = _standing(blob, key)
    while standing is not None:
        try:
            return get_named(blob, standing, "a file of rejected rows")
        except Corrupt:
            seen, standing = standing, _standing(blob, key)
            if standing == seen:  # else an erasure has replaced it since it was looked for
                raise
    return None


def moved_key(key: str, digest: str) -> str:
    """Return the key of the note that says which file has the rest of a file of rejected rows."""
    return keys.check_key(f"{key.rpartition('/')[0]}/{MOVED}{digest}.jsonl")


def _standing(blob: Blob, key: str) -> str | None:
    """Return the file that has what is left of a file of rejected rows; None: all was erased."""
    seen = {key}
    while retry(partial(blob.get, key, 0, 1)) is None:
        prefix = f"{key.rpartition('/')[0]}/{MOVED}"
        notes = retry(lambda prefix=prefix: [info.key for info in blob.list(prefix)])  # type: ignore[misc]
        moved: dict[str, str | None] = {}
        for note in notes:
            moved |= orjson.loads(get_named(blob, note, "a note about erased rows"))
        if key not in moved:
            break  # it is missing for another reason, which its reader names
        following = moved[key]
        if following is None or following in seen:
            return None
        key = following
        seen.add(key)
    return key


def raw_of(row: dict[str, Any]) -> bytes:
    """Return the bytes of a row of a quarantine file."""
    return b64decode(row["raw_base64"]) if "raw_base64" in row else str(row["raw"]).encode()


def catch_up(stores: Stores, state: State) -> int:
    """Append committed batches' rejected rows that the quarantine lacks; return how many.

    Cost: one state if some batch has rejected rows.
    """
    commits = [c for c in state.commits if c.rejects and not c.token.startswith(RETRY)]
    if not commits:
        return 0
    machine, name = Machine(stores), rejected_shard(state.name)
    machine.create(_spec(name), revive=True)  # even if dropped: there are rows to keep
    there = machine.load(name)

    def known(token: str) -> Commit | None:
        return find_commit(there.commits, token) or machine.committed(name, token)

    added = 0
    for commit in commits:
        token, append = commit.token, partial(_append, stores, name, at_ms=commit.at_ms)
        files = partial(_numbered, stores.blob, commit)
        before = known(_token("in", token))
        if before is None:
            added += append(_token("in", token), files, 1)
        elif before.lower < commit.at_ms:  # of another life of the shard
            mine = f"{token}@{commit.at_ms}"
            if known(_token("in", mine)) is None:
                # Also if nothing is left: a slower double of this run finds it done.
                append(_token("gone", mine), partial(_left_of, stores, name, token), -1)
                added += append(_token("in", mine), files, 1)
    return added


def _left_of(stores: Stores, name: str, token: str) -> Iterator[_Rows]:
    """Yield the rows of a token that the quarantine has."""
    yield [row for row in _rows(stores, Machine(stores).load(name)) if row["token"] == token]


def _numbered(blob: Blob, commit: Commit) -> Iterator[list[dict[str, Any]]]:
    """Yield the rejected rows of a commit file by file, numbered through."""
    first = 0
    for rows in files_of_index(blob, commit.rejects or ""):
        yield [_row(commit, n, row) for n, row in enumerate(rows, first)]
        first += len(rows)


def rejected(stores: Stores, name: str, token: str | None = None) -> Iterator[Rejected]:
    """Yield the rows in the quarantine of a shard, batch by batch.

    Those of batches that the shard does not have, since it was created anew or restored, stay out.
    Memory: the rejected rows of one batch. Cost: reads the quarantine.
    Raises: InvalidRequest for an unknown shard, and for a token that no batch of it has.
    """
    machine, quarantine = Machine(stores), rejected_shard(name)
    catch_up(stores, machine.load(name))
    if token is not None and machine.committed(name, token) is None:
        raise InvalidRequest(
            "no batch of the shard has this token",
            shard=name,
            token=token,
            cure=f"`strata quarantine show {name}` prints the token of each rejected row",
        )
    if quarantine not in machine.names():
        return
    with reading(stores, quarantine, ReadSettings(), "quarantine") as state:
        for found, rows in groupby(_rows(stores, state), key=itemgetter("token")):
            kinds: dict[str, list[dict[str, Any]]] = {}
            wanted = token in (None, found) and _is_its(machine.committed(name, found))
            for row in rows if wanted else ():
                header = row["header"] or ""
                kinds.setdefault(KEPT if header.startswith(KEPT) else header, []).append(row)
            for _, some in sorted(kinds.items()):
                yield Rejected(found, tuple(some))


def _is_its(commit: Commit | None) -> bool:
    """Return whether a shard has the batch of some rejected rows."""
    return commit is not None and commit.rejects is not None


def release(stores: Stores, name: str, token: str, rows: Sequence[dict[str, Any]]) -> None:
    """Retract rows that could finally be read; `token` is that of the batch that took them in."""
    if rows:
        _append(stores, rejected_shard(name), _token("out", token), lambda: iter([rows]), -1)


def _rows(stores: Stores, state: State) -> Iterator[dict[str, Any]]:
    """Yield the rows by token and number, as the key sorts them."""
    plan = plan_read(stores, state)
    for batch in scan(stores, state, plan, consolidate=True):
        yield from batch.to_pylist()


def _row(commit: Commit, number: int, row: dict[str, Any]) -> dict[str, Any]:
    return {
        "token": commit.token,
        "number": number,
        "file": row["file"],
        "line": row["line"],
        "column_name": row["column"],
        "value": row["value"],
        "reason": row["reason"],
        "raw": raw_of(row),
        "header": row.get("header"),
    }


def _append(
    stores: Stores,
    name: str,
    token: str,
    rows: Callable[[], Iterator[_Rows]],
    diff: int,
    *,
    at_ms: int = 0,
) -> int:
    """Append rows, sorted by token and number, at the quarantine's upper, once; return how many.

    `at_ms`: when their batch was committed, the earliest time that they get; 0: now.
    Memory: some of the lists that `rows` yields, which it may be asked for again.
    """
    machine = Machine(stores)
    for attempt in range(1, TRIES + 1):
        state = machine.load(name)
        if machine.committed(name, token) is not None:
            break
        lower = max(state.upper, at_ms or stores.clock())
        parts = write_parts(
            stores.blob,
            keys.part_prefix(name, state.generation),
            (_table(state, some, lower, diff) for some in rows() if some),
            state.relation,
            layout="structured",
            description=Description(lower, lower + 1, MIN_TIME),
            part_bytes=state.spec.part_bytes,
            row_group_bytes=state.spec.group_bytes,
            stats_spec=state.spec.stats,
        )
        batch = write_batch(stores.blob, name, parts, lower, lower + 1, MIN_TIME)
        try:
            machine.append(name, token=token, lower=lower, upper=lower + 1, batch=batch)
        except InvalidRequest:  # somebody took this time, or did the same just now
            overtaken = machine.load(name).upper > lower or machine.committed(name, token)
            if not overtaken or attempt == TRIES:
                raise
        else:
            return sum(part.ref.rows for part in parts)
    return 0


def _table(state: State, rows: Sequence[dict[str, Any]], time: int, diff: int) -> pa.Table:
    schema = updates_schema(state.relation)
    columns = [[row[column.name] for row in rows] for column in state.relation.columns]
    times = [[time] * len(rows), [diff] * len(rows)]
    arrays = [pa.array(c, f.type) for c, f in zip([*columns, *times], schema, strict=True)]
    table = pa.Table.from_arrays(arrays, schema=schema)
    assert schema.names[-2:] == [T, D]
    return sort_updates(table, state.relation)


def _spec(name: str) -> ShardSpec:
    columns = [{"name": column, "type": kind} for column, kind in COLUMNS.items()]
    spec = parse_spec({"name": name, "columns": columns, "key": ["token", "number"]})
    return replace(spec, write_format="structured")


def _token(way: str, token: str) -> str:
    return f"{way}-{token}"
