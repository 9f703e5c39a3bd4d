"""What strangers put into the landing folder: links, pipes, swaps and names that are no text."""

import errno
import os
import socket
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from strata.errors import InvalidRequest, Unavailable
from strata.ingest.land import files, folder
from strata.ingest.land.files import (
    Straight,
    bytes_fingerprint,
    check_unchanged,
    files_at,
    files_by_time,
    fingerprint,
    read_bytes,
    stored_bytes,
)
from strata.ingest.land.landing import landing
from strata.model.settings import IngestSettings
from tests.unit.ingest.test_engine import DAY, World

ROWS = "id,name\n1,a\n"
SECRET = "id,name\n666,secret\n"


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "1970-01-01.csv").write_text(SECRET)
    return tmp_path / "private" / "1970-01-01.csv"


@pytest.fixture
def world(tmp_path: Path) -> World:
    (tmp_path / "land" / "in").mkdir(parents=True)
    world = World(tmp_path / "land")
    world.put("in/1970-01-01.csv", ROWS)
    return world


def found(world: World, **how: Any) -> list[str]:
    return [file.name for file in files_by_time(str(world.root), ["in/"], **how)]


def link_file(world: World, secret: Path) -> None:
    (world.root / "in" / "1970-01-01-x.csv").symlink_to(secret)


def link_folder(world: World, secret: Path) -> None:
    (world.root / "in" / "deep").symlink_to(secret.parent)


def link_over_link(world: World, secret: Path) -> None:
    (world.root / "hop").symlink_to(secret.parent)
    (world.root / "in" / "1970-01-01-x.csv").symlink_to("../hop/1970-01-01.csv")


def link_upwards(world: World, secret: Path) -> None:
    (world.root / "in" / "up").symlink_to("../..")


@pytest.mark.parametrize("link", [link_file, link_folder, link_over_link, link_upwards])
def test_a_link_that_leads_out_refuses_the_run(world: World, secret: Path, link: Any) -> None:
    link(world, secret)

    for how in ({}, {"paths": [str(world.root / "in")]}):
        with pytest.raises(InvalidRequest, match="leads out of the landing folder") as error:
            world.ingest(*how.get("paths", ()), lower=0, upper=DAY)
        assert str(error.value.details["file"]).startswith("in/")
        assert error.value.cure is not None
        assert "follow_links" in error.value.cure
    assert world.rows() == {}


def test_a_declared_folder_that_is_a_link_out_is_refused(world: World, secret: Path) -> None:
    (world.root / "other").symlink_to(secret.parent)

    with pytest.raises(InvalidRequest, match="leads out"):
        files_by_time(str(world.root), ["other/"])
    with pytest.raises(InvalidRequest, match="leads out"):
        files_by_time(str(world.root), ["other/%Y-%m-%d.csv"])


def test_a_setting_lets_links_lead_out(world: World, secret: Path) -> None:
    link_file(world, secret)
    link_folder(world, secret)
    world.settings = replace(world.settings, ingest=IngestSettings(follow_links=True))

    world.ingest(lower=0, upper=DAY)

    assert {row[0] for row in world.rows()} == {1, 666}


def test_what_the_operator_names_may_be_a_link(world: World, secret: Path, tmp_path: Path) -> None:
    named, root = tmp_path / "named.csv", tmp_path / "root"
    named.symlink_to(secret)
    (tmp_path / "folder").symlink_to(secret.parent)
    root.symlink_to(world.root)

    assert [f.path for f in files_at(str(world.root), [str(named)])] == [str(secret)]
    assert [f.path for f in files_at(str(world.root), [str(tmp_path / "folder")])] == [str(secret)]
    assert [f.name for f in files_by_time(str(root), ["in/"])] == ["in/1970-01-01.csv"]
    assert [f.name for f in files_by_time(str(root), [str(secret.parent)])] == [str(secret)]


def test_links_that_stay_inside_are_followed_and_the_true_place_wins(world: World) -> None:
    world.put("archive/1970-01-02.csv", ROWS)
    (world.root / "in" / "more").symlink_to("../archive")
    (world.root / "in" / "1970-01-09.csv").symlink_to("1970-01-01.csv")

    files = files_by_time(str(world.root), ["in/"])

    assert [(f.name, f.time_ms) for f in files] == [
        ("in/1970-01-01.csv", 0),
        ("archive/1970-01-02.csv", DAY),
    ]


def test_loops_of_links_end(world: World) -> None:
    (world.root / "in" / "loop").symlink_to(".")
    (world.root / "in" / "up").symlink_to("..")
    assert found(world) == ["in/1970-01-01.csv"]

    (world.root / "in" / "self").symlink_to("self")
    with pytest.raises(InvalidRequest, match="leads nowhere") as error:
        found(world)
    assert error.value.details["file"] == "in/self"


def test_a_link_to_nothing_is_refused_by_name(world: World) -> None:
    (world.root / "in" / "1970-01-02.csv").symlink_to("gone.csv")

    with pytest.raises(InvalidRequest, match="leads nowhere") as error:
        found(world)
    assert error.value.details["file"] == "in/1970-01-02.csv"


def pipe(path: Path) -> None:
    os.mkfifo(path)


def listening(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as opened:
        here = Path.cwd()
        os.chdir(path.parent)  # the name of a socket is short
        try:
            opened.bind(path.name)
        finally:
            os.chdir(here)


def linked_pipe(path: Path) -> None:
    os.mkfifo(path.parent / "_pipe")
    path.symlink_to("_pipe")


@pytest.mark.parametrize("make", [pipe, listening, linked_pipe])
def test_what_is_no_file_is_refused_and_not_waited_for(world: World, make: Any) -> None:
    make(world.root / "in" / "1970-01-02.csv")

    for read in (
        lambda: found(world),
        lambda: files_at(str(world.root), [str(world.root / "in")]),
        lambda: files_at(str(world.root), [str(world.root / "in" / "1970-01-02.csv")]),
    ):
        with pytest.raises(InvalidRequest, match="this is no file"):
            read()
    with pytest.raises(InvalidRequest, match="this is no file"):
        files_at(str(world.root), ["/dev/null"])


def test_a_folder_that_cannot_be_read_is_named(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(folder.os, "scandir", refused)

    with pytest.raises(InvalidRequest, match="folder cannot be read") as error:
        found(world)
    assert error.value.details["folder"] == "in"


@pytest.mark.parametrize("to_folder", [False, True])
@pytest.mark.parametrize("linux", [True, False])
def test_a_file_that_is_swapped_for_a_link_is_not_read(
    world: World, secret: Path, monkeypatch: pytest.MonkeyPatch, to_folder: bool, linux: bool
) -> None:
    [file] = files_by_time(str(world.root), ["in/"])
    there = world.root / "in"
    if not linux:
        monkeypatch.setattr(folder, "OPENED", "/nowhere")
    assert read_bytes(file) == ROWS.encode()
    if to_folder:
        there.rename(world.root / "was")
        there.symlink_to(secret.parent)
    else:
        (there / "1970-01-01.csv").unlink()
        (there / "1970-01-01.csv").symlink_to(secret)

    for read in (read_bytes, stored_bytes):
        with pytest.raises(InvalidRequest, match="leads elsewhere"):
            read(file)
    with pytest.raises(InvalidRequest, match="leads elsewhere"):
        check_unchanged(file)


def test_a_small_file_has_the_hash_that_it_has_in_pieces(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    [file] = files_by_time(str(world.root), ["in/"])
    small = fingerprint(file)
    monkeypatch.setattr(files, "CHUNK_BYTES", 3)

    assert small == fingerprint(file) == bytes_fingerprint(ROWS.encode())


@pytest.mark.parametrize("size", [0, len(ROWS) - 1, len(ROWS), len(ROWS) + 1, 1000])
def test_a_file_of_another_size_than_was_found_shows_it(world: World, size: int) -> None:
    [file] = files_by_time(str(world.root), ["in/"])
    data = stored_bytes(replace(file, size_bytes=size))

    assert data == ROWS.encode()[: max(size + 1, 0)]
    assert (len(data) == size) == (size == len(ROWS))


def test_folders_are_looked_at_once_in_one_round_and_links_in_them_are_found(world: World) -> None:
    for number in range(3):
        world.put(f"in/1970-01-02-{number}.csv", ROWS)
    files = files_by_time(str(world.root), ["in/"])
    round, looked = Straight(), list[str]()
    with pytest.MonkeyPatch.context() as patch:
        real = os.path.realpath
        patch.setattr(os.path, "realpath", lambda path: (looked.append(path), real(path))[1])
        for file in files:
            check_unchanged(file, round)
    assert looked == [str(world.root / "in")]

    there = world.root / "in"
    there.rename(world.root / "was")
    there.symlink_to(world.root / "was")
    with pytest.raises(InvalidRequest, match="leads elsewhere"):
        check_unchanged(files[0], Straight())


def test_a_file_that_is_gone_is_worth_another_try(world: World) -> None:
    """Another run lists the folder anew; Airflow tries no refused request again."""
    [file] = files_by_time(str(world.root), ["in/"])
    (world.root / "in" / "1970-01-01.csv").unlink()

    for look in (read_bytes, stored_bytes, check_unchanged, fingerprint):
        with pytest.raises(Unavailable, match="is gone") as told:
            look(file)
        assert told.value.certain


def test_a_file_that_is_renamed_while_its_folder_is_listed_is_not_there(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writers put files down under another name first."""
    world.put("in/1970-01-02.csv.part", ROWS)
    listed = folder.Folder._entries

    def renaming(self: folder.Folder, path: str) -> list[os.DirEntry[str]]:
        entries = listed(self, path)
        (world.root / "in" / "1970-01-02.csv.part").rename(world.root / "in" / "1970-01-02.csv")
        return entries

    monkeypatch.setattr(folder.Folder, "_entries", renaming)

    assert found(world) == ["in/1970-01-01.csv"]


@pytest.mark.parametrize("packing", [None, "gzip"])
def test_a_disk_that_fails_is_no_damage_of_the_file(world: World, packing: str | None) -> None:
    """A process cannot read its own memory at 0: the kernel answers as for a broken disk."""
    number = os.open("/proc/self/mem", os.O_RDONLY)
    with (
        folder.LocalFile(number, "x.csv") as broken,
        pa.PythonFile(broken, mode="r") as file,
        pa.input_stream(file, compression=packing) as stream,
        pytest.raises(Unavailable, match="the disk of a source file fails"),
    ):
        stream.read(4)


def test_a_file_that_is_swapped_for_a_pipe_is_not_waited_for(world: World) -> None:
    [file] = files_by_time(str(world.root), ["in/"])
    (world.root / "in" / "1970-01-01.csv").unlink()
    os.mkfifo(world.root / "in" / "1970-01-01.csv")

    with pytest.raises(InvalidRequest, match="leads elsewhere"):
        read_bytes(file)
    with pytest.raises(InvalidRequest, match="leads elsewhere"):
        check_unchanged(file)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (b"1970-01-02\n.csv", r"in/1970-01-02\x0a.csv"),
        (b"\x1b[31m.csv", r"in/\x1b[31m.csv"),
        (b"1970-01-02\xff.csv", r"in/1970-01-02\xff.csv"),
        (b"a\x7f.csv", r"in/a\x7f.csv"),
    ],
)
def test_a_name_that_cannot_be_shown_is_refused(world: World, name: bytes, shown: str) -> None:
    with open(os.path.join(os.fsencode(world.root), b"in", name), "w") as file:
        file.write(ROWS)

    for paths in ((), (str(world.root / "in"),), (str(world.root / "in" / os.fsdecode(name)),)):
        with pytest.raises(InvalidRequest, match="cannot be shown") as error:
            world.ingest(*paths, lower=0, upper=DAY)
        assert error.value.details["file"] == shown
    with pytest.raises(InvalidRequest) as error:
        files_at(str(world.root), ["in/" + os.fsdecode(b"\xfe")])
    str(error.value).encode()


def test_long_and_foreign_names_are_taken_in(world: World) -> None:
    names = [f"{'x' * 241}1970-01-01.csv", "1970-01-01 Übermaß 表.csv", "1970-01-01'\".csv"]
    for number, name in enumerate(names):
        world.put(f"in/{name}", f"id,name\n{number + 10},a\n")

    world.ingest(lower=0, upper=DAY)

    assert {row[0] for row in world.rows()} == {1, 10, 11, 12}


def test_a_name_that_python_calls_unprintable_is_a_name_all_the_same() -> None:
    for name in ("a\u00a0b.csv", "a\u200bb.csv", "a\u2028b.csv", "é.csv"):
        folder.check_file_name(name)
    for name in ("a\nb.csv", "a\x9fb.csv", "a\x7f.csv", "a\udcff.csv"):
        with pytest.raises(InvalidRequest, match="cannot be shown"):
            folder.check_file_name(name)


def test_a_link_that_leads_out_is_refused_unless_somebody_allows_it(
    world: World, secret: Path
) -> None:
    link_file(world, secret)
    place, path = landing(str(world.root), "in/")
    with pytest.raises(InvalidRequest, match="leads out"):
        list(place.below(path) or ())
    place, path = landing(str(world.root), "in/", follow_links=True)
    assert len(list(place.below(path) or ())) == 2


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EIO, errno.ESTALE])
def test_what_says_nothing_of_the_file_is_tried_again(
    world: World, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Too many open files was said to be a right that the ingest lacks, for good."""
    [file] = files_by_time(str(world.root), ["in/"])

    def refuse(*_: Any) -> int:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(folder.os, "open", refuse)
        with pytest.raises(Unavailable, match="cannot be opened now") as caught:
            read_bytes(file)
    assert os.strerror(number) in str(caught.value)
    assert "right to read" not in str(caught.value.cure)
    assert read_bytes(file) == ROWS.encode()


@pytest.fixture
def somebody() -> Iterator[Callable[[], None]]:
    """Be somebody without the rights of root, once called."""
    was = os.geteuid()
    yield lambda: os.seteuid(65_534) if was == 0 else None
    os.seteuid(was)


@pytest.mark.parametrize("mode", [0o444, 0o000])
@pytest.mark.parametrize("named", ["in", "in/1970-01-01.csv"])
def test_a_folder_that_may_not_be_entered_is_named(
    somebody: Callable[[], None], named: str, mode: int
) -> None:
    """A file in it was gone, or the system's own error; the file by its name was not there."""
    with tempfile.TemporaryDirectory() as made:  # which another user can reach
        base = Path(made)
        base.chmod(0o755)
        (base / "in").mkdir()
        (base / "in" / "1970-01-01.csv").write_text(ROWS)
        (base / "in").chmod(mode)
        somebody()
        try:
            for find in (files_at, files_by_time):
                with pytest.raises(InvalidRequest, match="Permission denied") as raised:
                    find(made, [named])
                assert "give the ingest the right to" in str(raised.value)
        finally:
            os.seteuid(os.getuid())
            (base / "in").chmod(0o755)


def test_a_file_whose_folder_is_closed_meanwhile_is_not_called_gone(
    somebody: Callable[[], None],
) -> None:
    with tempfile.TemporaryDirectory() as made:
        base = Path(made)
        base.chmod(0o755)
        (base / "in").mkdir()
        (base / "in" / "1970-01-01.csv").write_text(ROWS)
        (file,) = files_at(made, ["in"])
        (base / "in").chmod(0o000)
        somebody()
        try:
            with pytest.raises(InvalidRequest, match="a source file cannot be read"):
                check_unchanged(file)
        finally:
            os.seteuid(os.getuid())
            (base / "in").chmod(0o755)
