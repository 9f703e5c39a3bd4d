"""Write blobs whose keys depend on their bytes.

If the store provides a file (`Drafting`), bytes go there as they come and are never collected in
memory. Otherwise they are collected in memory, or in a temporary file for huge rows.
"""

import io
import tempfile
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any, Final

import pyarrow as pa

from strata.errors import StrataError
from strata.store.cures import temporary_room
from strata.store.interface import Blob, Draft, Drafting, Purges
from strata.store.keys import content_hash

ABANDONED_MS: Final = 24 * 60 * 60 * 1000  # of a draft of this age nobody is the writer any more


def drop_abandoned(blob: Blob) -> None:
    """Remove the temporary files of killed writers, where no garbage collection comes by.

    What is deleted and can be restored stays. A store that refuses keeps them.
    """
    if isinstance(blob, Purges):
        with suppress(StrataError):
            blob.purge(0)


def draft_of(blob: Blob, *, huge: bool = False) -> Draft:
    """Begin a blob. `huge`: the pieces are so large that memory should never hold two of them."""
    if isinstance(blob, Drafting):
        return blob.draft()
    return _Aside(blob) if huge else _Collected(blob)


class _Collected:
    """See `Draft`: all bytes in memory."""

    def __init__(self, blob: Blob) -> None:
        """Begin with nothing."""
        self._blob = blob
        self._data = b""
        # It grows, and hands its bytes over, with fewer copies than Arrow's buffer.
        self.file: Any = io.BytesIO()

    def guarded(self) -> AbstractContextManager[None]:
        """See `Draft.guarded`."""
        return nullcontext()

    def finish(self) -> tuple[str, int]:
        """See `Draft.finish`."""
        self._data = self._collected()
        return content_hash(self._data), len(self._data)

    def keep(self, key: str) -> None:
        """See `Draft.keep`."""
        self._blob.set(key, self._data)
        self.drop()

    def drop(self) -> None:
        """See `Draft.drop`."""
        self._data = b""

    def _collected(self) -> bytes:
        return bytes(self.file.getvalue())


class _Aside(_Collected):
    """See `Draft`: a temporary file, which Arrow writes without a copy of a page.

    The bytes are read into memory only at the end, when the encoders have freed theirs.
    """

    def __init__(self, blob: Blob) -> None:
        """Begin with nothing."""
        super().__init__(blob)
        with self.guarded():
            self._temporary = tempfile.NamedTemporaryFile(prefix="strata-part-")  # noqa: SIM115
            self.file = pa.OSFile(self._temporary.name, "wb")

    def guarded(self) -> AbstractContextManager[None]:
        """See `Draft.guarded`."""
        return temporary_room()

    def drop(self) -> None:
        """See `Draft.drop`."""
        super().drop()
        self._temporary.close()

    def _collected(self) -> bytes:
        with self.guarded():
            self.file.close()
            pa.default_memory_pool().release_unused()
            with self._temporary as file:
                return file.read()
