"""Rejected rows on their way into the quarantine: a task never holds many of them."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from strata.ingest.readers.rejects import Reject, encode_rejects
from strata.ingest.task import IngestTask, JudgedRows
from strata.store import keys
from strata.store.interface import Blob
from strata.store.retry import retry

ASIDE_BYTES: Final = 8 << 20  # of texts of rejected rows that wait to be written


class Aside:
    """Takes the rejected rows of a task, and writes files of about ASIDE_BYTES."""

    def __init__(self, store: Blob, task: IngestTask) -> None:
        """Begin without rows."""
        self._store, self._task = store, task
        self._waiting: list[Reject] = []
        self._size = 0
        self._written: list[str] = []

    def take(self, judged: JudgedRows) -> JudgedRows:
        """Take over the rejected rows of a file; only the first is left, for a message."""
        for reject in judged.rejected:
            self._waiting.append(reject)
            self._size += len(reject.raw) + len(reject.value or "")
            if self._size >= ASIDE_BYTES:
                self._write()
        return replace(judged, rejected=judged.rejected[:1])

    def finish(self) -> tuple[str, ...]:
        """Write what waits, and return the keys of all files, in the order of the rows."""
        if self._waiting:
            self._write()
        return tuple(self._written)

    def _write(self) -> None:
        self._written.append(put_aside(self._store, self._task, self._waiting))
        self._waiting, self._size = [], 0


def put_aside(store: Blob, task: IngestTask, rejected: Sequence[Reject]) -> str:
    """Store the rejected rows; the name depends on the content, so changed files get new names."""
    data = encode_rejects(rejected, task.relation.version)
    key = keys.quarantine_key(task.spec.name, f"{task.token}/{keys.content_hash(data)}")
    retry(partial(store.set, key, data))
    return key
