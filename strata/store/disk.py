"""Blob on a local folder.

    root/shards/flights/parts/00ff.parquet      live blobs, at their key
    root/.tmp/...                               being written; a crash leaves them there
    root/.deleted/shards/...                    deleted, can be restored until purged

A write goes to a temporary file, is synced, and is then *linked* to its key. A link never
overwrites, so write-once holds between processes too, and a reader sees all bytes or none. The
folders on the way are synced, so acknowledged writes survive a power cut.

Files and folders belong to their owner alone, unless the root was created beforehand with other
rights: then everything below it takes over these rights, for any umask of the writer. What the
superuser writes belongs to the root's owner and group.
"""

import errno
import os
import stat
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import zip_longest
from pathlib import Path
from typing import Final
from uuid import uuid4

import pyarrow as pa

from strata.errors import InvalidRequest, Unavailable
from strata.store.cures import folder_gone, outside_cure
from strata.store.draft import ABANDONED_MS
from strata.store.interface import BlobInfo
from strata.store.keys import check_key, check_prefix, check_range, content_hash_of
from strata.store.local_file import give_to, open_itself, pieces, sync
from strata.store.named import other_bytes
from strata.store.reference import ReferringBlob

FOLDER: Final = 0o2777  # rights that folders take over from the root
FILE: Final = 0o666  # rights that files take over from the root


class DiskBlob(ReferringBlob):
    """Write-once bytes as files below a folder."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        """Use the folder `root`, relative to the current directory; made at the first write."""
        self.root = Path(root).absolute()
        self._references = OrderedDict()
        self._seen = False  # whether the folder was there; then it is never made anew

    def _stored(self, key: str, start: int = 0, length: int | None = None) -> bytes | None:
        check_range(start, length)
        path = self._live(key)
        with _outside(path):
            try:
                with path.open("rb") as file:
                    self._seen = True
                    file.seek(start)
                    return file.read(-1 if length is None else length)
            except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
                self._check_there()
                return None

    def set(self, key: str, data: bytes) -> None:
        """See `Blob.set`."""
        path = self._live(key)
        with _outside(path):
            if not _same(path, data):
                temporary = self._write_temporary(data)
                try:
                    self._link(temporary, path)
                finally:
                    temporary.unlink(missing_ok=True)
        with _outside(path, certain=False):
            sync(path.parent)

    def overwrite(self, key: str, data: bytes) -> None:
        """See `Overwriting.overwrite`."""
        path = self._live(key)
        with _outside(path):
            self._make_folder(path.parent)
            self._write_temporary(data).replace(path)
        with _outside(path, certain=False):
            sync(path.parent)

    def draft(self) -> "_Draft":
        """See `Drafting.draft`. The bytes go to a temporary file, whose name becomes the key."""
        return _Draft(self, self._temporary())

    def list(self, prefix: str) -> Iterator[BlobInfo]:
        """See `Blob.list`."""
        folder, _, _ = check_prefix(prefix).rpartition("/")
        with _outside(self.root):
            self._check_there()
            yield from _walk(self.root / folder, f"{folder}/" if folder else "", prefix)

    def delete(self, key: str) -> int | None:
        """See `Blob.delete`. The bytes are set aside until `purge`."""
        path, aside = self._live(key), self._aside(key)
        with _outside(path):
            try:
                size = path.stat().st_size
                self._make_folder(aside.parent)
                os.utime(path)  # from now on its age is the time since its deletion
                if _is_one_file(path, aside):  # then a rename would do nothing
                    path.unlink()
                else:
                    path.replace(aside)
            except (FileNotFoundError, NotADirectoryError):
                self._check_there()
                return None
        with _outside(path, certain=False):
            sync(aside.parent)
            sync(path.parent)
        return size

    def restore(self, key: str) -> None:
        """See `Blob.restore`."""
        path, aside = self._live(key), self._aside(key)
        with _outside(path):
            self._make_folder(path.parent)
            try:
                os.link(aside, path)
            except FileExistsError:
                if not _is_one_file(path, aside):
                    return
            except (FileNotFoundError, NotADirectoryError) as error:
                if path.exists():
                    return
                raise InvalidRequest("nothing is left to restore", key=key) from error
        with _outside(path, certain=False):
            sync(path.parent)
            aside.unlink(missing_ok=True)

    def purge(self, before_ms: int) -> int:
        """Remove blobs deleted before `before_ms` permanently; return the freed bytes.

        Also removes temporary files without a write for a day. A younger one may be what another
        process writes, so `before_ms` says nothing about it.
        """
        freed = 0
        left_ms = now_ms() - ABANDONED_MS
        for name, until_ms in ((".deleted", before_ms), (".tmp", left_ms)):
            folder = self.root / name
            with _outside(folder):
                for info in list_files(folder):
                    if info.modified_ms < until_ms:
                        (folder / info.key).unlink(missing_ok=True)
                        freed += info.size_bytes
        return freed

    def expunge(self, key: str) -> int:
        """See `Expunging.expunge`."""
        path = self._aside(key)
        with _outside(path, certain=False):
            try:
                freed = path.stat().st_size
                path.unlink()
            except (FileNotFoundError, NotADirectoryError):
                return 0
            sync(path.parent)
        return freed

    def set_aside(self, prefix: str) -> Iterator[BlobInfo]:
        """See `Expunging.set_aside`."""
        folder, _, _ = check_prefix(prefix).rpartition("/")
        root = self.root / ".deleted"
        with _outside(root):
            yield from _walk(root / folder, f"{folder}/" if folder else "", prefix)

    @property
    def place(self) -> str:
        """See `Rooted.place`."""
        return str(self.root)

    def is_there(self) -> bool:
        """See `Rooted.is_there`."""
        found = self.root.is_dir()
        self._seen = self._seen or found
        return found

    def _check_there(self) -> None:
        """Refuse to go on where the folder was there and is gone: its disk, or somebody's `mv`."""
        seen = self._seen  # before a look: another thread may make it meanwhile
        if self.root.is_dir():
            self._seen = True
        elif seen:
            raise folder_gone(self.place)

    def _live(self, key: str) -> Path:
        return self.root / check_key(key)

    def _aside(self, key: str) -> Path:
        return self.root / ".deleted" / check_key(key)

    def _temporary(self) -> Path:
        folder = self.root / ".tmp"
        with _outside(folder):
            self._make_folder(folder)
        return folder / f"{uuid4().hex}.{os.getpid()}"

    def _write_temporary(self, data: bytes) -> Path:
        path = self._temporary()
        try:
            with path.open("xb") as file:
                self._restrict(path, self._rights() & FILE)
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            path.unlink(missing_ok=True)
            raise
        return path

    def _link(self, temporary: Path, path: Path) -> None:
        """Link a durable file to its key."""
        self._make_folder(path.parent)
        try:
            os.link(temporary, path)
        except FileExistsError:
            _same(path, temporary)  # lost a race: fine if the winner wrote the same

    def _make_folder(self, folder: Path) -> None:
        """Make a folder and its parents, each durable before it gets an entry."""
        self._check_there()
        rights = self._rights()
        missing: list[Path] = []
        at = folder
        while not at.is_dir():
            missing.append(at)
            at = at.parent
        for made in reversed(missing):
            with suppress(FileExistsError):
                made.mkdir(rights & FOLDER & ~stat.S_ISGID)
                self._restrict(made, rights & FOLDER)
            sync(made.parent)

    def _rights(self) -> int:
        """Return the rights for new files: those of the root, by default for the owner alone."""
        try:
            return stat.S_IMODE(self.root.stat().st_mode)
        except FileNotFoundError:
            return stat.S_IRWXU

    def _restrict(self, path: Path, mode: int) -> None:
        """Give a new file or folder its rights, and to those whom the root belongs to."""
        opened = open_itself(path)
        try:
            give_to(opened, self.root)
            with suppress(PermissionError):  # a file system without rights
                os.fchmod(opened, mode)  # last: a change of owner may take rights away
        finally:
            os.close(opened)


class _Draft:
    """See `Draft`: a temporary file, linked to its key in the end."""

    def __init__(self, blob: DiskBlob, path: Path) -> None:
        """Begin an empty file."""
        self._blob, self._path = blob, path
        self._hash, self._lost = "", False  # of the content; whether a sync of it failed
        with self.guarded():
            path.touch(stat.S_IRUSR | stat.S_IWUSR, exist_ok=False)
            self._blob._restrict(path, blob._rights() & FILE)
            self.file = pa.OSFile(str(path), "wb")

    def guarded(self) -> AbstractContextManager[None]:
        """See `Draft.guarded`."""
        return _outside(self._path)

    def finish(self) -> tuple[str, int]:
        """See `Draft.finish`. Hashes the content of the file."""
        with self.guarded():
            self.file.close()
            self._hash = content_hash_of(pieces(self._path))
            return self._hash, self._path.stat().st_size

    def keep(self, key: str) -> None:
        """See `Draft.keep`."""
        path = self._blob._live(key)
        with _outside(path):
            if not _same(path, self._path):
                self._settle()
                self._blob._link(self._path, path)
        with _outside(path, certain=False):
            sync(path.parent)
        self.drop()

    def drop(self) -> None:
        """See `Draft.drop`."""
        with suppress(OSError):
            self._path.unlink(missing_ok=True)

    def _settle(self) -> None:
        """Sync the file; after a sync that failed, sync a copy of it.

        Linux reports a failed write once and then calls the pages clean: another sync of this file
        would succeed without the bytes. Raises: OSError, also where the bytes changed meanwhile.
        """
        if self._lost:
            self._copy()
        with self._path.open("rb") as file:
            self._lost = True
            os.fsync(file.fileno())
            self._lost = False

    def _copy(self) -> None:
        copy = self._blob._temporary()
        try:
            with copy.open("xb") as file:
                self._blob._restrict(copy, self._blob._rights() & FILE)
                for piece in pieces(self._path):
                    file.write(piece)
            if content_hash_of(pieces(copy)) != self._hash:
                raise OSError(errno.EIO, os.strerror(errno.EIO), str(self._path))
            copy.replace(self._path)
        except OSError:
            copy.unlink(missing_ok=True)
            raise


# Outside the class: inside it, `list` names the method.
def list_files(folder: Path) -> list[BlobInfo]:
    """Return every file below `folder`, in key order; none if there is no such folder."""
    return list(_walk(folder, "", ""))


def _walk(folder: Path, at: str, prefix: str) -> Iterator[BlobInfo]:
    """Yield the files below `folder`, whose key starts with `at`, that match `prefix`.

    Folders are sorted by their name with "/", which is the order of the keys below them. Entries
    that vanish meanwhile are left out.
    """
    try:
        with os.scandir(folder) as entries:  # names alone: there may be a million of them
            found = sorted(e.name + "/" * e.is_dir() for e in entries)
    except (FileNotFoundError, NotADirectoryError):
        return
    for name in found:
        key = at + name
        if name.startswith(".") or not (key.startswith(prefix) or prefix.startswith(key)):
            continue
        if name.endswith("/"):
            yield from _walk(folder / name, key, prefix)
        elif key.startswith(prefix):
            with suppress(FileNotFoundError):
                info = os.stat(f"{folder}/{name}")
                yield BlobInfo(key, info.st_size, info.st_mtime_ns // 1_000_000)


def _is_one_file(path: Path, aside: Path) -> bool:
    """Return whether two names are of one file, as a restore leaves them that was killed."""
    try:
        return path.samefile(aside)
    except (FileNotFoundError, NotADirectoryError):
        return False


def _same(path: Path, content: bytes | Path) -> bool:
    """Return whether a file has the content of bytes or of another file; False if it is missing.

    Raises: as `Blob.set`, when it has other content.
    """
    size = content.stat().st_size if isinstance(content, Path) else len(content)
    try:
        same = path.stat().st_size == size and all(
            a == b for a, b in zip_longest(pieces(path), pieces(content))
        )
    except (FileNotFoundError, NotADirectoryError):
        return False
    if not same:
        raise other_bytes(path.name, content_hash_of(pieces(content)), path=str(path))
    return True


@contextmanager
def _outside(path: Path, *, certain: bool = True) -> Iterator[None]:
    """Turn errors of the operating system into the two kinds that a caller can act on."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG):
            raise InvalidRequest(
                "this key clashes with another key or is too long", path=str(path)
            ) from error
        reason = os.strerror(error.errno) if error.errno else str(error)  # Arrow's errors say more
        raise Unavailable(
            f"the blob folder cannot be used: {reason}",
            certain=certain,
            path=str(error.filename or path),
            cure=outside_cure(error),
        ) from error


def now_ms() -> int:
    """Return the time of the file system's clock, for `DiskBlob.purge`."""
    return time.time_ns() // 1_000_000
