"""A prefix of a bucket that has each update of a consumer exactly once, in Parquet files.

    changes.0000000007.parquet            the seventh delivery that has rows
    bookmark.0000000007.1785974460000     of the last delivery, empty ones included

A bucket knows no lock and no rename. But of two objects of one name only the first is stored, so
the numbers decide: of two sessions that write the next file one gets its name, and the other finds
the prefix ahead of it, and stops. A file has its bookmark in its metadata and appears whole, so a
program that dies before it has written the other finds the file, and goes on behind it.
"""

import re
from dataclasses import dataclass
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from strata.errors import Corrupt, Fenced, InvalidRequest, Unavailable
from strata.model.settings import StoreSettings
from strata.read.bookmark import BOOKMARK_KEY, Bookmark
from strata.read.subscription import Delivery
from strata.store.draft import draft_of, drop_abandoned
from strata.store.interface import BlobInfo, Expunging
from strata.store.open import address_of, open_blob
from strata.store.retry import retry

_FILE: Final = re.compile(r"changes\.(\d{10})\.parquet")
_NOTE: Final = re.compile(r"bookmark\.(\d{10})\.(-?\d+)")
LOOKS: Final = 5  # at a sink that others move on
_FOOTER: Final = 64 * 1024  # bytes that hold nearly every footer
_TAIL: Final = 8  # bytes behind a footer: its length and a mark


@dataclass(frozen=True, slots=True)
class _Found:
    """What a prefix holds."""

    number: int  # of the last file; 0: there was none yet
    bookmark: str | None
    notes: tuple[str, ...]  # keys


class ParquetBucket:
    """The sink."""

    def __init__(self, address: str) -> None:
        """Use the prefix at `s3://bucket/prefix`. Raises: InvalidRequest for another address."""
        settings = StoreSettings(blob=address)
        self._blob, self.address = open_blob(settings), address_of(settings)
        self._tidy = False

    def bookmark(self) -> str | None:
        """Return the bookmark of the last delivery; None: the prefix has none yet.

        Raises: Corrupt for a file that is not one of a delivery; Unavailable.
        """
        return self._found().bookmark

    def take(self, delivery: Delivery) -> int:
        """Store a delivery as one file, none if it is empty; return how many rows it had.

        Raises: as `Delivery.check_follows`; InvalidRequest for rows that Parquet cannot hold;
        Unavailable.
        """
        there = self._found()
        delivery.check_follows(there.bookmark)
        if not self._tidy:
            drop_abandoned(self._blob)
            self._tidy = True
        number, rows = there.number, self._write(delivery, there.number + 1)
        if rows:
            number += 1
        position = Bookmark.of(delivery.bookmark).position
        note = f"bookmark.{number:010d}.{position}"
        retry(partial(self._blob.set, note, delivery.bookmark.encode()))
        for old in there.notes:
            if old != note:
                self._remove(old)
        return rows

    def _write(self, delivery: Delivery, number: int) -> int:
        schema = delivery.schema.with_metadata({BOOKMARK_KEY: delivery.bookmark.encode()})
        key, rows, writer, draft = _key(number), 0, None, draft_of(self._blob)
        try:
            with draft.guarded():
                for batch in delivery.rows:
                    writer = writer or pq.ParquetWriter(draft.file, schema)
                    writer.write_batch(batch)
                    rows += batch.num_rows
                if writer is not None:
                    writer.close()
                    draft.finish()
            if writer is not None:
                retry(partial(draft.keep, key))
        except pa.ArrowInvalid as error:
            raise InvalidRequest(
                "cannot write changes", file=f"{self.address}/{key}", reason=str(error)
            ) from error
        except InvalidRequest as error:
            if retry(partial(self._blob.get, key, 0, 1)) is None:
                raise
            raise Fenced(
                "another program has filled this sink meanwhile", file=f"{self.address}/{key}"
            ) from error
        finally:
            draft.drop()
        return rows

    def _found(self) -> _Found:
        """Return what is there. Raises: Unavailable while other sessions move on all the time."""
        for _ in range(LOOKS):
            found = self._look()
            if found is not None:
                return found
        raise Unavailable("other sessions move this sink on", certain=True, sink=self.address)

    def _look(self) -> _Found | None:
        """Return what is there; None: another session has moved on. Cost: two listings, a GET."""
        listed = retry(lambda: list(self._blob.list("changes.")))
        files = [(int(m[1]), info) for info in listed if (m := _FILE.fullmatch(info.key))]
        notes = sorted(
            (int(match[1]), int(match[2]), match[0])
            for info in retry(lambda: list(self._blob.list("bookmark.")))
            if (match := _NOTE.fullmatch(info.key))
        )
        keys = tuple(key for _, _, key in notes)
        last, newest = files[-1] if files else (0, None)
        if notes and notes[-1][0] >= last:
            number, _, key = notes[-1]
            text = retry(partial(self._blob.get, key))
            return None if text is None else _Found(number, text.decode(errors="replace"), keys)
        if newest is None:
            return _Found(0, None, keys)
        of_file = self._of_file(newest)
        return None if of_file is None else _Found(last, of_file, keys)

    def _of_file(self, info: BlobInfo) -> str | None:
        """Return the bookmark of a file; None: it was moved away meanwhile. Raises: Corrupt."""
        tail, length = b"", _FOOTER
        while len(tail) < min(length, info.size_bytes):
            start = max(info.size_bytes - length, 0)
            found = retry(partial(self._blob.get, info.key, start))
            if not found:
                return None
            tail = found
            length = int.from_bytes(tail[-_TAIL:-4], "little") + _TAIL
        try:
            return str(
                (pq.read_schema(pa.BufferReader(tail)).metadata or {})[BOOKMARK_KEY], "utf-8"
            )
        except (KeyError, pa.ArrowInvalid, OSError, UnicodeDecodeError) as error:
            raise Corrupt(
                "this file is not one of a delivery", file=f"{self.address}/{info.key}"
            ) from error

    def _remove(self, key: str) -> None:
        retry(partial(self._blob.delete, key))
        if isinstance(self._blob, Expunging):
            retry(partial(self._blob.expunge, key))


def _key(number: int) -> str:
    return f"changes.{number:010d}.parquet"
