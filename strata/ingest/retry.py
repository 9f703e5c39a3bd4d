"""Rows of the quarantine are read again: after a column was widened, or a policy was changed."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from strata.errors import InvalidRequest
from strata.ingest.engine import ingest_now
from strata.ingest.files import SourceFile
from strata.ingest.quarantine import RETRY, Rejected, rejected, release, rows_of_index
from strata.ingest.task import Step
from strata.machine import Machine
from strata.model.settings import Settings
from strata.state.state import Commit
from strata.store.open import Stores


@dataclass(frozen=True, slots=True)
class Retried:
    """What became of the rejected rows of one batch."""

    token: str  # of the batch that they are missing from
    rows: int
    taken: int  # that are in the shard now
    reason: str = ""  # of the first that is still rejected


def retry_rejected(
    stores: Stores, settings: Settings, name: str, token: str | None = None
) -> list[Retried]:
    """Read the rows in the quarantine of a shard again, and take in what can be read now.

    They come in at the time of now, or at their own where rows bring it and it is not too late.
    `token`: only the rows that are missing from this batch. Doing it again does it once.
    Raises: as `ingest`.
    """
    return [_retry(stores, settings, name, one) for one in rejected(stores, name, token)]


def _retry(stores: Stores, settings: Settings, name: str, found: Rejected) -> Retried:
    machine = Machine(stores)
    facts = "\0".join([found.token, *(str(row["number"]) for row in found.rows)])
    token = f"{RETRY}{blake2b(facts.encode(), digest_size=12).hexdigest()}"
    try:
        commit = machine.committed(name, token) or _ingest(stores, settings, name, found, token)
    except InvalidRequest as error:
        if error.message != "every row of the file is unreadable in one column":
            raise
        return Retried(found.token, len(found.rows), 0, str(error.details.get("reason", "")))
    again = rows_of_index(stores.blob, commit.rejects) if commit.rejects else []
    lines = {row["line"] for row in again}
    taken = [
        row
        for row, line in zip(found.rows, _first_lines(found.rows), strict=True)
        if line not in lines
    ]
    release(stores, name, token, taken)
    reason = str(again[0]["reason"]) if again else ""
    return Retried(found.token, len(found.rows), len(taken), reason)


def _ingest(stores: Stores, settings: Settings, name: str, found: Rejected, token: str) -> Commit:
    machine = Machine(stores)
    first = found.rows[0]["header"]
    header = [] if first is None else [str(first).encode()]
    data = b"\n".join([*header, *(row["raw"] for row in found.rows)]) + b"\n"
    with TemporaryDirectory() as folder:
        path = Path(folder, "rows")
        path.write_bytes(data)
        file = SourceFile(str(path), f"quarantine/{found.token}", len(data))
        step = Step(None, None, token, (file,), format="csv" if header else "jsonl", again=True)
        ingest_now(stores, settings, name, step)
    commit = machine.committed(name, token)
    assert commit is not None
    return commit


def _first_lines(rows: Sequence[dict[str, Any]]) -> list[int]:
    """Return the line on which each row begins in the file of `_ingest`."""
    lines = []
    at = 2 if rows[0]["header"] is not None else 1
    for row in rows:
        lines.append(at)
        at += row["raw"].count(b"\n") + 1
    return lines
