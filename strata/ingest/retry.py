"""Reads rows of the quarantine again, after a column was widened or a policy was changed.

A retried row means what it meant in its file: it is read from its own bytes, or from the values
that its file had. A row that was not kept exactly stays in the quarantine.

The commit that takes rows in records each in the ledger, as a file of its own. If a retry is killed
before the rows leave the quarantine, the next one finds them there, and they only leave.
"""

import csv
from dataclasses import dataclass, replace
from hashlib import blake2b
from io import StringIO
from itertools import count
from typing import Any, Final

import orjson

from strata.errors import Conflict, Fenced, InvalidRequest
from strata.ingest.engine import ingest_now
from strata.ingest.land.files import FileRange, SourceFile
from strata.ingest.land.recode import encoding_said, kept_text
from strata.ingest.ledger import Ledger
from strata.ingest.quarantine import (
    AGAIN,
    RETRY,
    Rejected,
    files_of_index,
    rejected,
    release,
    rows_of_index,
)
from strata.ingest.readers.formats.csv import one_line
from strata.ingest.readers.formats.interface import KEPT as KEPT_FORMAT
from strata.ingest.readers.formats.interface import format_of
from strata.ingest.readers.kept import KEPT
from strata.ingest.task import Step
from strata.machine.machine import Machine
from strata.model.schema import Relation
from strata.model.settings import Settings
from strata.model.spec import SourceSpec
from strata.state.state import Commit, State
from strata.store.open import Stores

OTHERS: Final = "names in it are those of other columns now: take the file in again"
NOT_KEPT: Final = "not kept as it was in its file: take the file in again"


@dataclass(frozen=True, slots=True)
class Retried:
    """The outcome for the rejected rows of one batch."""

    token: str  # of the batch that they are missing from
    rows: int
    taken: int  # rows that are in the shard now
    reason: str = ""  # of the first that is still rejected


def retry_rejected(
    stores: Stores, settings: Settings, name: str, token: str | None = None
) -> list[Retried]:
    """Read the rows in the quarantine of a shard again, and take in those that can be read now.

    They get the current time, or their own if rows bring it and it is not too late.
    `token`: only the rows that are missing from this batch. A repetition changes nothing.
    Raises: as `ingest`.
    """
    outcomes = []
    for found in rejected(stores, name, token):
        gone = _release_taken(stores, name, found)
        rest = tuple(row for row in found.rows if row["number"] not in gone)
        outcome = _retry(stores, settings, name, replace(found, rows=rest))
        outcomes.append(replace(outcome, rows=len(found.rows), taken=outcome.taken + len(gone)))
    return outcomes


def _release_taken(stores: Stores, name: str, found: Rejected) -> set[int]:
    """Let the rows leave that a killed retry took in; return their numbers."""
    machine = Machine(stores)
    ledger = Ledger(stores.blob, machine.load(name))
    named = [(row, _name(found.token, row)) for row in found.rows]
    tokens = ledger.tokens_by_name([own for _, own in named])
    gone: set[int] = set()
    for token in sorted(set(tokens.values())):
        commit = _committed(machine, name, token)
        left = _left(stores, commit)
        mine = [(row, own) for row, own in named if tokens.get(own) == token]
        taken = [row for row, own in mine if commit.updates and own not in left]
        release(stores, name, token, taken)
        gone.update(row["number"] for row in taken)
    return gone


def _retry(stores: Stores, settings: Settings, name: str, found: Rejected) -> Retried:
    """Read rows again, and once more if their columns were altered meanwhile."""
    machine = Machine(stores)
    while found.rows:
        state = machine.load(name)
        try:
            return _retry_for(stores, settings, state, found)
        except Conflict:
            if _made_for(machine.load(name)) == _made_for(state):
                raise
    return Retried(found.token, 0, 0)


def _made_for(state: State) -> tuple[Relation, SourceSpec]:
    """Return what decides how a rejected row is written as a file."""
    return state.relation, state.spec.source


def _retry_for(stores: Stores, settings: Settings, state: State, found: Rejected) -> Retried:
    """Read rows again as the columns and the source of a state say.

    Raises: Conflict if these changed meanwhile; then nothing is committed.
    """
    machine, name = Machine(stores), state.name
    rows = [row for row in found.rows if _can_be_read(row, state.spec.source.format)]
    if not rows:
        return Retried(found.token, len(found.rows), 0, NOT_KEPT)
    before = _read_by(stores, state, found.token)
    named = tuple(row for one in rows if (row := _by_present_names(one, before, state)))
    if len(named) < len(rows):
        return Retried(found.token, len(found.rows), 0, OTHERS)
    batch = _committed(machine, name, found.token)  # of another life: at another moment
    facts = "\0".join([found.token, str(batch.at_ms), *(str(row["number"]) for row in rows)])
    token = f"{RETRY}{blake2b(facts.encode(), digest_size=12).hexdigest()}"
    for attempt in count():
        tried = f"{token}-{attempt}" if attempt else token
        commit = machine.committed(name, tried)
        done = commit is not None
        try:
            commit = commit or _ingest(stores, settings, state, replace(found, rows=named), tried)
        except InvalidRequest as error:
            return Retried(found.token, len(found.rows), 0, str(error))
        left = _left(stores, commit)
        taken = [row for row in rows if _name(found.token, row) not in left]
        if done and not commit.updates:  # an erasure may have taken lines out of what is left
            taken = []
        if taken or not done:  # else an earlier try took nothing, and things may have changed
            break
    release(stores, name, tried, taken)
    reason = next(iter(left.values()), "" if rows == list(found.rows) else NOT_KEPT)
    return Retried(found.token, len(found.rows), len(taken), reason)


def _left(stores: Stores, commit: Commit) -> dict[str, str]:
    """Return the names of the rows that a retry rejected again, with the reason of each."""
    again = rows_of_index(stores.blob, commit.rejects) if commit.rejects else []
    return {row["file"]: str(row["reason"]) for row in again}


def _can_be_read(row: dict[str, Any], format: str) -> bool:
    """Return whether the quarantine has a row exactly as its file had it.

    Two kinds of row would be read as different rows: those whose text was not found, and those that
    are not text and come from an older Strata, which kept only the JSON for people.
    """
    header = row["header"] or ""
    if header.startswith(KEPT):
        return True
    return bool(row["raw"].strip()) and (bool(header) or format_of(format).row_text == "json")


def _read_by(stores: Stores, state: State, token: str) -> Relation:
    """Return the relation whose names the rejected rows of a batch have.

    Errs: returns today's for rows of an older Strata, which did not keep the version.
    """
    commit = Machine(stores).committed(state.name, token)
    if commit is None or commit.rejects is None or len(state.relations) == 1:
        return state.relation
    files = files_of_index(stores.blob, commit.rejects)
    version = next((row.get("version") for rows in files for row in rows), None)
    return next((one for one in state.relations if one.version == version), state.relation)


def _by_present_names(row: dict[str, Any], before: Relation, state: State) -> dict[str, Any] | None:
    """Return a rejected row, its header with the present names of columns; None: it has others'.

    A text without a header stays as it is; the reader rejects it for a name that is none any more.
    """
    now, called = state.relation, state.spec.source.names_of_source
    header = row["header"] or ""
    other = {c.name for c in before.columns if c.name in now.by_name} - {
        c.name for c in before.columns if c.id in now.by_id and now.by_id[c.id].name == c.name
    }
    if header.startswith(KEPT) or before is now:  # with the ids of its columns
        return row
    if not header:
        return None if any(orjson.dumps(name) in row["raw"] for name in other) else row
    stays = {c.name: now.by_id[c.id].name for c in before.columns if c.id in now.by_id}
    names = encoding_said(header)[1]
    fields = next(csv.reader(StringIO(names, newline=""), delimiter=state.spec.source.delimiter))
    if any(name in other and name not in stays for name in fields):
        return None
    renamed = {old: called.get(name, name) for old, name in stays.items() if old != name}
    text = one_line([renamed.get(name, name) for name in fields], state.spec.source.delimiter)
    return row | {"header": header.removesuffix(names) + text}


def _ingest(
    stores: Stores, settings: Settings, state: State, found: Rejected, token: str
) -> Commit:
    """Take rows in, each as a file of its own, because rows are independent of each other."""
    header = str(found.rows[0]["header"] or "")
    format = KEPT_FORMAT if header.startswith(KEPT) else "csv" if header else "jsonl"
    encoding = state.spec.source.encoding
    files = tuple(_file(found.token, row, format, encoding) for row in found.rows)
    step = Step(None, None, token, files, format=format, again=True, made_for=_made_for(state))
    ingest_now(stores, settings, state.name, step)
    return _committed(Machine(stores), state.name, token)


def _committed(machine: Machine, name: str, token: str) -> Commit:
    """Return the commit of a retry that the shard had. Raises: Fenced."""
    commit = machine.committed(name, token)
    if commit is None:
        raise Fenced(
            "the shard was dropped while rejected rows were read again",
            shard=name,
            cure="run again, if it was created again",
        )
    return commit


def _file(token: str, row: dict[str, Any], format: str, encoding: str) -> SourceFile:
    """Return a row as a part of a file: it is judged as a row, and a BOM in it is part of it."""
    said, header = encoding_said(row["header"])
    line = header.encode()
    raw = kept_text(row["raw"], said, encoding) if format == "csv" else row["raw"]
    data = {"csv": line + b"\n" + raw, "jsonl": raw, KEPT_FORMAT: line}[format]
    own = line + b"\n" if format == "csv" else b""  # its names are not those declared now
    name = _name(token, row)
    piece = FileRange(1, len(data) + 1, len(data), header=own, fingerprint=name, data=data)
    return SourceFile("", name, 0, piece=piece)


def _name(token: str, row: dict[str, Any]) -> str:
    return f"{AGAIN}{token}/{row['number']}"
