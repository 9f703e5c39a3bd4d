"""Where a published table lies: a folder or a bucket of its own, and PyIceberg's files in it.

    metadata/table.txt                   whose folder it is: no other table may use it
    metadata/v3.metadata.json            a version of the table, of a catalog of files
    metadata/version-hint.text           the number of the newest, for readers
    metadata/m-{digest}-{snapshot}.avro  the files of one batch of the shard
    metadata/snap-{snapshot}.avro        the files of a snapshot
    views/duckdb.sql                     texts of views, one for each dialect

Files are written through `Blob`: whole or not at all, durable, and never over one another.
"""

import io
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from pyiceberg.io import FileIO, InputFile, OutputFile

from strata.errors import InvalidRequest
from strata.model.settings import StoreSettings
from strata.store.interface import Blob, Expunging, Overwriting
from strata.store.open import address_of, open_blob
from strata.store.retry import retry

METADATA: Final = "metadata/"
VIEWS: Final = "views/"
SNAPSHOTS: Final = f"{METADATA}snap-"  # the list of lists of a snapshot
_OWNER: Final = f"{METADATA}table.txt"


@dataclass(frozen=True)
class TableFolder:
    """The folder of a table."""

    blob: Blob
    address: str  # of the folder, as other programs know it; no slash at the end
    io: "FolderIO" = field(init=False)

    def __post_init__(self) -> None:
        """Open the files of the folder."""
        object.__setattr__(self, "io", FolderIO(self))

    def claim(self, identity: str) -> None:
        """Make this the folder of a table; repeating it changes nothing.

        Raises: InvalidRequest when it is that of another one.
        """
        try:
            retry(partial(self.blob.set, _OWNER, identity.encode()))
        except InvalidRequest as error:
            there = retry(partial(self.blob.get, _OWNER)) or b""
            raise InvalidRequest(
                "this folder is that of another table",
                folder=self.address,
                table=there.decode(errors="replace"),
                wanted=identity,
                cure="a folder of its own for each table: --to",
            ) from error

    def location(self, key: str) -> str:
        """Return the address of a file."""
        return f"{self.address}/{key}"

    def key(self, location: str) -> str:
        """Return the key of a file by its address. Raises: InvalidRequest for one elsewhere."""
        if not location.startswith(f"{self.address}/"):
            raise InvalidRequest(
                "a file of a published table lies elsewhere",
                file=location,
                folder=self.address,
                cure="name the folder it was published to: --to",
            )
        return location[len(self.address) + 1 :]

    def keys(self, prefix: str) -> list[str]:
        """Return the keys of the files that begin with `prefix`."""
        return retry(lambda: [info.key for info in self.blob.list(prefix)])

    def keys_with_removed(self, prefix: str) -> list[str]:
        """Return the keys of the files that begin with `prefix`, and of those half removed."""
        found = self.keys(prefix)
        if isinstance(blob := self.blob, Expunging):
            found += retry(lambda: [info.key for info in blob.set_aside(prefix)])
        return sorted(set(found))

    def overwrite(self, key: str, data: bytes) -> None:
        """Store a document that changes."""
        assert isinstance(self.blob, Overwriting)  # each store with an address is
        retry(partial(self.blob.overwrite, key, data))

    def remove(self, key: str) -> None:
        """Remove a file for good: bounds in it are values of rows."""
        retry(partial(self.blob.delete, key))
        if isinstance(self.blob, Expunging):
            retry(partial(self.blob.expunge, key))


def open_folder(address: str) -> TableFolder:
    """Open the folder at `file:///folder` or `s3://bucket/prefix`. Raises: InvalidRequest."""
    settings = StoreSettings(blob=address)
    return TableFolder(open_blob(settings), address_of(settings))


class FolderIO(FileIO):
    """The files of a place, as PyIceberg reads and writes them."""

    def __init__(self, place: TableFolder) -> None:
        """Use a place."""
        super().__init__()
        self._place = place

    def new_input(self, location: str) -> InputFile:
        """Return a file to read."""
        return _Input(self._place, location)

    def new_output(self, location: str) -> OutputFile:
        """Return a file to write."""
        return _Output(self._place, location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Remove a file."""
        name = location if isinstance(location, str) else location.location
        self._place.remove(self._place.key(name))


class _Input(InputFile):
    """A file that is read as a whole: metadata is small."""

    def __init__(self, place: TableFolder, location: str) -> None:
        super().__init__(location)
        self._place = place

    def __len__(self) -> int:
        return len(self._bytes())

    def exists(self) -> bool:
        """Return whether the file is there."""
        return self._found() is not None

    def open(self, seekable: bool = True) -> Any:
        """Return the bytes as a file. Raises: FileNotFoundError."""
        return io.BytesIO(self._bytes())

    def _found(self) -> bytes | None:
        return retry(partial(self._place.blob.get, self._place.key(self.location)))

    def _bytes(self) -> bytes:
        data = self._found()
        if data is None:
            raise FileNotFoundError(self.location)
        return data


class _Output(OutputFile):
    """A file that is stored when it is closed."""

    def __init__(self, place: TableFolder, location: str) -> None:
        super().__init__(location)
        self._place = place
        self._written = 0

    def __len__(self) -> int:
        return self._written

    def exists(self) -> bool:
        """Return whether the file is there."""
        return self.to_input_file().exists()

    def to_input_file(self) -> InputFile:
        """Return the same file to read."""
        return _Input(self._place, self.location)

    def create(self, overwrite: bool = False) -> Any:
        """Return a file object; names are never used twice, so nothing is overwritten."""
        return _Stream(self)

    def store(self, data: bytes) -> None:
        """Store the bytes."""
        retry(partial(self._place.blob.set, self._place.key(self.location), data))
        self._written = len(data)


class _Stream(io.BytesIO):
    """The bytes of a file being written."""

    def __init__(self, output: _Output) -> None:
        super().__init__()
        self._output = output

    def close(self) -> None:
        """Store the bytes."""
        if not self.closed:
            self._output.store(self.getvalue())
        super().close()
