"""The local folder keeps the contract of the seam, also when the disk does not help."""

import errno
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from strata.errors import InvalidRequest, Unavailable
from strata.store.disk import DiskBlob, now_ms
from strata.store.interface import Overwriting
from strata.store.named import get_named
from tests.conformance.blob import BlobSuite

WRITER = """
import sys
from strata.errors import InvalidRequest
from strata.store.disk import DiskBlob
blob, won = DiskBlob(sys.argv[1]), 0
for number in range(50):
    try:
        blob.set(f"a/{number}", (sys.argv[2] * 1000).encode())
        won += 1
    except InvalidRequest:
        pass
print(won)
"""


class RawFolder:
    def __init__(self, root: Path) -> None:
        self.root = root

    def read(self, key: str) -> bytes | None:
        path = self.root / key
        return path.read_bytes() if path.is_file() else None

    def write(self, key: str, data: bytes) -> None:
        (self.root / key).parent.mkdir(parents=True, exist_ok=True)
        (self.root / key).write_bytes(data)

    def keys(self) -> list[str]:
        files = (p.relative_to(self.root).as_posix() for p in self.root.rglob("*") if p.is_file())
        return sorted(f for f in files if not f.startswith(".deleted/"))


class TestDiskBlob(BlobSuite):
    @pytest.fixture
    def blob(self, tmp_path: Path) -> DiskBlob:
        return DiskBlob(tmp_path / "blob")

    @pytest.fixture
    def raw(self, tmp_path: Path) -> RawFolder:
        return RawFolder(tmp_path / "blob")


def test_a_document_is_overwritten_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blob = DiskBlob(tmp_path)
    assert isinstance(blob, Overwriting)
    blob.overwrite("a/hint", b"1")
    blob.overwrite("a/hint", b"22")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(Unavailable):
            blob.overwrite("a/hint", b"333")
    assert blob.get("a/hint") == b"22"
    assert [info.key for info in blob.list("")] == ["a/hint"]
    with pytest.raises(InvalidRequest):
        blob.overwrite("../a", b"x")


def test_no_process_overwrites_what_another_wrote(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    writers = [
        subprocess.Popen([*command, letter], stdout=subprocess.PIPE, text=True) for letter in "xyz"
    ]
    won = [int(writer.communicate(timeout=120)[0]) for writer in writers]
    assert sum(won) == 50
    files = list((tmp_path / "a").iterdir())
    assert len(files) == 50
    assert all(f.read_text() in {letter * 1000 for letter in "xyz"} for f in files)


def test_a_write_that_failed_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blob = DiskBlob(tmp_path)

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    blob.set("a/before", b"1")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(Unavailable) as caught:
        blob.set("a/b", b"12345")
    monkeypatch.undo()
    assert caught.value.certain
    assert "make room" in str(caught.value)
    assert RawFolder(tmp_path).keys() == ["a/before"]


FULL_DISK = """
import resource, signal, sys
from strata.errors import Unavailable
from strata.store.disk import DiskBlob

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
draft = DiskBlob(sys.argv[1]).draft()
try:
    with draft.guarded():
        draft.file.write(bytes(2000))
except Unavailable as error:
    print(error.certain, error)
draft.drop()
"""


def test_a_draft_for_which_there_is_no_room_says_so_and_leaves_nothing(tmp_path: Path) -> None:
    """The system refuses bytes beyond a limit, as it does where a disk is full."""
    command = [sys.executable, "-c", FULL_DISK, str(tmp_path)]
    found = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert found.stdout.startswith("True the blob folder cannot be used")
    assert str(tmp_path / ".tmp") in found.stdout
    assert found.stderr == ""
    assert RawFolder(tmp_path).keys() == []


def test_keeping_a_draft_is_tried_again_where_it_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blob, sync = DiskBlob(tmp_path), os.fsync
    blob.set("a/before", b"1")
    draft = blob.draft()
    draft.file.write(b"12345")
    draft.finish()
    links: list[Path] = []

    def fail(_: int) -> None:
        if (tmp_path / "a" / "b").exists() == bool(links):
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(Unavailable) as before_link:
        draft.keep("a/b")
    assert before_link.value.certain
    assert not (tmp_path / "a" / "b").exists()
    links.append(tmp_path)
    with pytest.raises(Unavailable) as after_link:
        draft.keep("a/b")
    assert not after_link.value.certain
    monkeypatch.setattr(os, "fsync", sync)
    draft.keep("a/b")
    assert RawFolder(tmp_path).keys() == ["a/b", "a/before"]
    assert blob.get("a/b") == b"12345"


def test_a_draft_whose_sync_failed_is_written_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Linux drops the pages of a write that failed, and another sync of them succeeds."""
    blob, sync = DiskBlob(tmp_path), os.fsync
    synced: list[int] = []
    failed: list[int] = []

    def fail(number: int) -> None:
        found = os.fstat(number)
        if stat.S_ISREG(found.st_mode):
            if not failed:
                failed.append(found.st_ino)
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            synced.append(found.st_ino)
        sync(number)

    for key, changed in (("a/b", b""), ("a/c", b"other bytes")):
        draft = blob.draft()
        draft.file.write(b"12345")
        draft.finish()
        failed.clear()
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", fail)
            with pytest.raises(Unavailable, match="check the disk"):
                draft.keep(key)
            if changed:
                [path] = (tmp_path / ".tmp").iterdir()
                path.write_bytes(changed)
                with pytest.raises(Unavailable):
                    draft.keep(key)
                draft.drop()
            else:
                draft.keep(key)
        assert (blob.get(key) == b"12345") == (not changed)
    inode = (tmp_path / "a" / "b").stat().st_ino
    assert inode in synced
    assert RawFolder(tmp_path).keys() == ["a/b"]


def test_a_draft_that_somebody_removed_is_no_success(tmp_path: Path) -> None:
    blob = DiskBlob(tmp_path)
    draft = blob.draft()
    draft.file.write(b"12345")
    draft.finish()
    [path] = (tmp_path / ".tmp").iterdir()
    path.unlink()
    with pytest.raises(Unavailable):
        draft.keep("a/b")
    assert blob.get("a/b") is None


def test_a_folder_without_permission_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Injected, because root may write everywhere."""

    def refuse(source: Path, target: Path) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(target))

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(Unavailable, match=str(tmp_path / "a")) as caught:
        DiskBlob(tmp_path).set("a", b"1")
    assert caught.value.certain
    assert "the right to" in str(caught.value)
    assert list((tmp_path / ".tmp").iterdir()) == []


def test_a_failure_after_the_link_leaves_the_outcome_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blob, link, sync = DiskBlob(tmp_path), os.link, os.fsync
    blob.set("before", b"1")

    def link_then_break(source: Path, target: Path) -> None:
        link(source, target)
        monkeypatch.setattr(os, "fsync", fail)

    def fail(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "link", link_then_break)
    with pytest.raises(Unavailable) as caught:
        blob.set("a", b"1")
    assert not caught.value.certain
    monkeypatch.setattr(os, "fsync", sync)
    blob.set("a", b"1")


@pytest.mark.skipif(os.geteuid() != 0, reason="only the superuser gives files away")
@pytest.mark.parametrize("mode", [0o700, 0o2770, 0o750, 0o755])
def test_what_the_superuser_writes_belongs_to_those_who_own_the_root(
    tmp_path: Path, mode: int
) -> None:
    """Root ingested once into a store of others, whose blobs nobody but root could read then."""
    root, owner, group = tmp_path / "blob", 65_534, 50_001
    root.mkdir()
    os.chown(root, owner, group)
    root.chmod(mode)
    blob, before = DiskBlob(root), os.umask(0o077)
    try:
        blob.set("a/b/one", b"1")
        blob.overwrite("a/hint", b"2")
        draft = blob.draft()
        draft.file.write(b"3")
        draft.finish()
        draft.keep("a/c/three")
        blob.delete("a/b/one")
    finally:
        os.umask(before)
    for path in root.rglob("*"):
        found = path.stat()
        wanted = mode if path.is_dir() else mode & 0o666
        assert (found.st_uid, found.st_gid) == (owner, group), path
        assert stat.S_IMODE(found.st_mode) == wanted, path


@pytest.fixture
def reachable() -> Iterator[Path]:
    """Return a folder that other users can reach."""
    made = Path(tempfile.mkdtemp())
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


@pytest.mark.skipif(os.geteuid() != 0, reason="only the superuser is in every group")
def test_a_member_of_the_group_gives_it_what_is_shared(reachable: Path) -> None:
    """Also where the root's folder lacks set-group-ID."""
    shared, private, group = reachable / "shared", reachable / "private", 50_001
    program = (
        "import os, sys; from strata.store.disk import DiskBlob;"
        f"os.setgroups([{group}]); os.setgid(50_002); os.setuid(50_003);"
        "DiskBlob(sys.argv[1]).set('a/b', b'1'); DiskBlob(sys.argv[2]).set('a/b', b'1')"
    )
    for folder, mode in ((shared, 0o770), (private, 0o700)):
        folder.mkdir()
        os.chown(folder, 50_003, group)
        folder.chmod(mode)
    subprocess.run([sys.executable, "-c", program, str(shared), str(private)], check=True)
    assert {p.stat().st_gid for p in shared.rglob("*")} == {group}
    assert {p.stat().st_gid for p in private.rglob("*")} == {50_002}


def test_a_root_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises((Unavailable, InvalidRequest), match="file"):
        DiskBlob(tmp_path / "file").set("a", b"1")


def test_a_key_inside_another_key_is_refused(tmp_path: Path) -> None:
    blob = DiskBlob(tmp_path)
    blob.set("a", b"1")
    with pytest.raises(InvalidRequest):
        blob.set("a/b", b"2")
    assert blob.get("a/b") is None
    assert blob.delete("a/b") is None


def test_half_written_files_are_never_listed(tmp_path: Path) -> None:
    blob = DiskBlob(tmp_path)
    blob.set("a", b"1")
    (tmp_path / ".tmp" / "left-by-a-crash").write_bytes(b"half")
    assert [info.key for info in blob.list("")] == ["a"]


def test_purge_removes_what_writers_left_a_day_ago(tmp_path: Path) -> None:
    blob = DiskBlob(tmp_path)
    blob.set("a", b"1")
    blob.delete("a")
    for name, hours in (("gone", 25), ("slow", 23)):
        path = tmp_path / ".tmp" / name
        path.write_bytes(b"half")
        os.utime(path, ns=((now_ms() - hours * 3_600_000) * 1_000_000,) * 2)

    assert blob.purge(now_ms() - 7 * 24 * 3_600_000) == 4
    assert blob.purge(now_ms() - 60_000) == 0  # whatever else may go, somebody may write the other
    assert [path.name for path in (tmp_path / ".tmp").iterdir()] == ["slow"]
    blob.restore("a")


def test_purge_frees_what_was_deleted_before(tmp_path: Path) -> None:
    blob = DiskBlob(tmp_path)
    for key in ("a/1", "a/2"):
        blob.set(key, b"12345")
        os.utime(tmp_path / key, (1, 1))  # an old blob, deleted just now
        blob.delete(key)
    (tmp_path / ".tmp" / "a-draft").write_bytes(b"half")

    assert blob.purge(now_ms() - 60_000) == 0
    blob.restore("a/1")
    assert blob.purge(now_ms() + 60_000) == 5
    with pytest.raises(InvalidRequest):
        blob.restore("a/2")
    assert blob.get("a/1") == b"12345"


@pytest.mark.parametrize("again", [False, True])
def test_what_a_killed_restore_brought_back_can_be_deleted(tmp_path: Path, again: bool) -> None:
    """Both names were of one file, a rename between them does nothing, and the blob stayed live."""
    blob, key = DiskBlob(tmp_path), "shards/s/parts/00ff.parquet"
    blob.set(key, b"abc")
    blob.delete(key)
    os.link(tmp_path / ".deleted" / key, tmp_path / key)  # killed before its last step
    if again:
        blob.restore(key)
        assert [*blob.set_aside("shards/")] == []

    assert blob.delete(key) == 3
    assert blob.get(key) is None
    blob.restore(key)
    assert blob.get(key) == b"abc"
    blob.delete(key)
    assert blob.expunge(key) == 3
    assert [file for file in tmp_path.rglob("*") if file.is_file()] == []


def test_a_folder_that_another_thread_is_making_is_not_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blob = DiskBlob(tmp_path / "root")
    looked = Path.is_dir

    def overtaken(path: Path) -> bool:
        there = looked(path)
        if path == blob.root and not there:  # between a look and its answer
            monkeypatch.setattr(Path, "is_dir", looked)
            DiskBlob(blob.root).set("a/b", b"x")
            assert blob.get("a/b") == b"x"
        return there

    monkeypatch.setattr(Path, "is_dir", overtaken)
    blob.set("a/c", b"y")
    assert blob.get("a/c") == b"y"


def test_a_blob_of_a_folder_that_is_gone_is_not_called_damage(tmp_path: Path) -> None:
    """A task begins where the folder of all blobs is not mounted."""
    blob = DiskBlob(tmp_path / "gone")

    with pytest.raises(Unavailable, match="the folder of blobs is gone"):
        get_named(blob, "shards/s/manifests/00ff.parquet", "a manifest")
