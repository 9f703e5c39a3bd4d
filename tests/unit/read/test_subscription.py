"""A sink is one consumer's, of one life of a shard; what it has lost or never had is said."""

import errno
import resource
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import monotonic, sleep
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from strata.errors import Corrupt, Fenced, InvalidRequest, Unavailable
from strata.format.columns import updates_schema
from strata.machine.ledger import commit_at
from strata.machine.machine import Machine
from strata.model.settings import ReadSettings
from strata.model.types import parse_type
from strata.read.bookmark import Bookmark, check_same_wish, what_is_wanted
from strata.read.changes import listen
from strata.read.folder_sink import ParquetFolder
from strata.read.subscription import Subscription, Wish, following
from strata.state.consumers import consumers_of
from strata.state.schema import AddColumn, Change, DropColumn, RenameColumn, evolve
from strata.state.state import Commit
from strata.state.tombstone import drop
from strata.store.open import Stores
from tests.laws.test_changes import fixed_history
from tests.support.stored import append, create, memory_stores, spec_of


def written(stores: Stores) -> Stores:
    """Write 4 updates of the times 0 to 19."""
    _, batches = fixed_history()
    for lower, upper, runs in batches:
        append(stores, "shard", lower, upper, runs)
    return stores


@pytest.fixture
def stores() -> Stores:
    stores = memory_stores()
    create(stores, fixed_history()[0])
    return written(stores)


@pytest.fixture
def sink(tmp_path: Path) -> ParquetFolder:
    return ParquetFolder(tmp_path / "all")


def deliver(stores: Stores, sink: ParquetFolder, consumer: str = "c") -> tuple[int, int]:
    return following(stores, "shard", consumer, sink, Wish()).into(sink)


def test_a_folder_takes_the_changes_of_one_consumer_only(
    stores: Stores, sink: ParquetFolder
) -> None:
    """A second one began where the first was, and lacked all changes before, without a word."""
    assert deliver(stores, sink) == (1, 4)
    with pytest.raises(InvalidRequest, match="another consumer"):
        deliver(stores, sink, "second")
    other = memory_stores()
    create(other, fixed_history()[0], name="other")
    with pytest.raises(InvalidRequest, match="another consumer"):
        following(other, "other", "c", sink, Wish())
    assert deliver(stores, sink) == (0, 0)


def test_a_sink_that_lacks_what_its_consumer_has_had_is_refused(
    stores: Stores, sink: ParquetFolder, tmp_path: Path
) -> None:
    deliver(stores, sink)
    with pytest.raises(InvalidRequest, match="lacks changes that the consumer has had"):
        deliver(stores, ParquetFolder(tmp_path / "new"))


@pytest.mark.parametrize("again", [False, True])
def test_a_folder_does_not_go_on_in_another_life_of_its_shard(
    stores: Stores, sink: ParquetFolder, again: bool
) -> None:
    """After a restore, changes before the folder's position may be others."""
    deliver(stores, sink)
    relation = fixed_history()[0]
    machine = Machine(stores)
    machine.apply("shard", partial(drop, by="ann", reason="due", force=True))
    machine.create(spec_of(relation), revive=True)
    if again:
        written(stores)
    with pytest.raises(InvalidRequest, match="restored or created again"):
        deliver(stores, sink)


def test_a_folder_that_was_emptied_during_a_session_is_noticed(
    stores: Stores, sink: ParquetFolder
) -> None:
    session = following(stores, "shard", "c", sink, Wish(step_ms=5))
    pending = session.pending()
    first = next(pending)
    sink.take(first)
    first.done()
    for file in sink.folder.iterdir():
        file.unlink()
    with pytest.raises(Fenced, match="lost changes"):
        sink.take(next(pending))


def test_a_file_whose_bookmark_was_not_written_counts(stores: Stores, sink: ParquetFolder) -> None:
    deliver(stores, sink)
    text = sink.bookmark()
    (sink.folder / "bookmark").unlink()
    assert sink.bookmark() == text
    assert Bookmark.of(text or "").position == 20
    [file] = sink.folder.glob("*.parquet")
    pq.write_table(pq.read_table(file).replace_schema_metadata(), file)
    with pytest.raises(Corrupt, match="not one of a delivery"):
        sink.bookmark()


def test_what_a_killed_program_has_begun_goes_and_nothing_else(
    stores: Stores, sink: ParquetFolder
) -> None:
    (sink.folder / "changes.0.5.parquet.part").write_bytes(b"half")
    (sink.folder / "film.mkv.part").write_bytes(b"of somebody else")
    deliver(stores, sink)
    assert [file.name for file in sink.folder.glob("*.part")] == ["film.mkv.part"]


def test_a_full_disk_is_worth_another_try(stores: Stores, sink: ParquetFolder) -> None:
    """A limit of the process on the size of files stands in for the disk."""
    (sink.folder / ".lock").touch()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16, limits[1]))
    try:
        with pytest.raises(Unavailable, match="this folder fails"):
            deliver(stores, sink)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [file.name for file in sink.folder.iterdir()] == [".lock"]
    assert deliver(stores, sink) == (1, 4)


@pytest.mark.parametrize("call", ["fcntl.flock", "pathlib.Path.unlink", "os.fsync"])
def test_a_folder_that_fails_is_named_whichever_call_fails(
    stores: Stores, sink: ParquetFolder, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(call, fails)
        (sink.folder / "changes.0.5.parquet.part").write_bytes(b"half")
        with pytest.raises(Unavailable, match="this folder fails") as caught:
            deliver(stores, sink)
    assert caught.value.cure == "make room on this disk"
    assert deliver(stores, sink) == (1, 4)


def test_what_cannot_be_removed_hides_no_error(
    stores: Stores, sink: ParquetFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr("pathlib.Path.unlink", fails)
        assert deliver(stores, sink) == (1, 4)


@pytest.mark.parametrize("name", [".lock", "bookmark"])
def test_a_folder_that_cannot_be_used_is_named(
    stores: Stores, sink: ParquetFolder, name: str
) -> None:
    (sink.folder / name).mkdir()
    with pytest.raises(InvalidRequest, match="cannot use this folder"):
        deliver(stores, sink)
    assert Subscription(stores, "shard", "c", Wish()).position < 0


def test_a_delivery_that_lasts_has_a_hold_that_is_no_consumer(stores: Stores) -> None:
    """It was named as consumers are, and all lists of them failed from then on."""
    soon = ReadSettings(hold_ms=150)
    session = Subscription(stores, "shard", "c", Wish(), settings=soon)
    machine = Machine(stores)
    deadline = monotonic() + 10
    for delivery in session.pending():
        next(delivery.rows)
        while not own_holds(machine) and monotonic() < deadline:
            sleep(0.02)
        assert own_holds(machine)
        assert [one.name for one in consumers_of(machine.load("shard"))] == ["c"]
        delivery.done()


def test_rows_that_were_not_read_in_time_are_refused(stores: Stores) -> None:
    """They were empty, so a list of deliveries had none, and `done` counted them as done."""
    session = Subscription(stores, "shard", "c", Wish(step_ms=5))
    first, second, *_ = list(session.pending())
    with pytest.raises(InvalidRequest, match="no longer be read"):
        next(first.rows)
    with pytest.raises(InvalidRequest, match="no longer be read"):
        list(second.rows)
    assert [len(list(one.rows)) for one in Subscription(stores, "shard", "c", Wish()).pending()]


def own_holds(machine: Machine) -> list[str]:
    """Return the holds that are neither of a consumer's position nor shared."""
    names = (found.name for found in machine.load("shard").holds)
    return [name for name in names if name != "consumer-c" and not name.startswith("readers-")]


OWN: Final = '"shard": "shard", "consumer": "c"'


@pytest.mark.parametrize(
    "text",
    [
        *("12", "{}", "[]", '{"x": 1}', "\x00", "[" * 100_000),
        f'{{"position": null, {OWN}}}',
        f'{{"position": NaN, {OWN}}}',
        f'{{"position": "20", {OWN}}}',
        f'{{"position": 20, "commit_ms": "x", {OWN}}}',
        f'{{"position": 20, "wanted": 5, {OWN}}}',
        f'{{"position": 20, "asked": null, {OWN}}}',
        f'{{"position": 20, "wanted": "a.b.{{", {OWN}}}',
        f'{{"position": 20, "wanted": "a.b.[1]", {OWN}}}',
    ],
    ids=range(14),
)
def test_a_bookmark_of_another_program_is_damage(text: str) -> None:
    with pytest.raises(Corrupt, match="no bookmark"):
        Bookmark.of(text)


def test_the_commit_of_a_time_is_found_at_any_age() -> None:
    """Also in leaves and nodes of the ledger: the slow twin looks at all commits."""
    stores = memory_stores()
    create(stores, fixed_history()[0])
    machine = Machine(stores)
    for number in range(300):
        machine.append("shard", token=str(number), lower=2 * number, upper=2 * number + 2)
    state = machine.load("shard")
    assert state.ledger

    def found(time: int) -> Commit | None:
        return commit_at(stores.blob, state, time)

    for time in (0, 1, 63, 64, 255, 256, 417, 598, 599):
        commit = found(time)
        assert commit is not None
        assert commit.token == str(time // 2)
    assert found(600) is None
    assert found(-1) is None


def test_a_sink_of_before_says_nothing_of_what_was_wanted(
    stores: Stores, sink: ParquetFolder
) -> None:
    deliver(stores, sink)
    mark = Bookmark.of((sink.folder / "bookmark").read_text("utf-8"))
    assert mark.wanted
    assert mark.asked == "all rows, all columns"
    for file in sink.folder.glob("*.parquet"):
        file.unlink()
    former = Bookmark(mark.position, mark.shard, mark.consumer, mark.commit_ms)
    (sink.folder / "bookmark").write_text(former.to_text(), "utf-8")
    assert following(stores, "shard", "c", sink, Wish(columns=["id"])).into(sink) == (0, 0)


def test_a_session_ends_with_its_shard(stores: Stores, sink: ParquetFolder) -> None:
    """The rows of the next shard of this name were stored, and its sink went on from there."""
    pending = following(stores, "shard", "c", sink, Wish(step_ms=5)).pending()
    first = next(pending)
    sink.take(first)
    first.done()
    machine = Machine(stores)
    machine.apply("shard", partial(drop, by="ann", reason="due", force=True))
    machine.create(spec_of(fixed_history()[0]), revive=True)
    written(stores)
    with pytest.raises(Fenced, match="its shard was dropped"):
        next(pending)
    with pytest.raises(InvalidRequest, match="restored or created again"):
        deliver(stores, sink)


def test_a_column_under_the_name_of_another_is_refused(stores: Stores) -> None:
    state = Machine(stores).load("shard")
    column = replace(state.relation.columns[0], id=7)
    another = replace(state.relation, columns=(column,), key=(7,), order=())
    one, other = (
        Bookmark(20, "shard", "c", 0, *what_is_wanted(found, ["id"], None))
        for found in (state, replace(state, relations=(another,)))
    )
    check_same_wish(one, one)
    with pytest.raises(InvalidRequest, match="had this name before") as refused:
        check_same_wish(one, other)
    assert refused.value.details == {"column": "id", "id": 7, "id_before": 1}
    former = replace(one, wanted=one.wanted.rpartition(".")[0])
    assert check_same_wish(former, one) == one  # of a version that kept no ids


def altered(stores: Stores, *changes: Change) -> None:
    """Change the columns, then write a row at the next times."""
    machine = Machine(stores)
    for change in changes:
        machine.apply("shard", partial(evolve, change=change))
    state = machine.load("shard")
    values = [*range(len(state.relation.columns)), state.upper, 1]
    rows = pa.Table.from_pylist(
        [dict(zip(updates_schema(state.relation).names, values, strict=True))],
        schema=updates_schema(state.relation),
    )
    append(stores, "shard", state.upper, state.upper + 5, [rows])


ADD, DROP = AddColumn("x", parse_type("int64")), DropColumn("x")


@pytest.mark.parametrize(
    "steps",
    [
        [[ADD], [DROP, ADD]],
        [[ADD], [DROP], [ADD]],
        [[ADD], [RenameColumn("x", "y")], [ADD]],
    ],
    ids=["at once", "after a delivery without", "renamed"],
)
@pytest.mark.parametrize("again", [False, True], ids=["one session", "a session each"])
def test_a_sink_of_all_columns_mixes_no_two_of_one_name(
    stores: Stores, sink: ParquetFolder, steps: list[list[Change]], again: bool
) -> None:
    """Values of a column that was dropped and of one that came later stood in one column."""
    *before, last = steps
    session = following(stores, "shard", "c", sink, Wish())
    for changes in before:
        altered(stores, *changes)
        session = following(stores, "shard", "c", sink, Wish()) if again else session
        assert session.into(sink)[0] == 1
    altered(stores, *last)
    files = sorted(sink.folder.iterdir())
    for _ in range(2):
        with pytest.raises(InvalidRequest, match="another column had this name") as refused:
            (following(stores, "shard", "c", sink, Wish()) if again else session).into(sink)
        assert refused.value.details["column"] == "x"
    assert sorted(sink.folder.iterdir()) == files
    anew = ParquetFolder(sink.folder / "anew")
    assert following(stores, "shard", "d", anew, Wish()).into(anew)[0] == 1


@pytest.mark.parametrize("columns", [None, ["x"]])
def test_who_listens_hears_that_a_name_went_to_another_column(
    stores: Stores, columns: list[str] | None
) -> None:
    altered(stores, ADD)
    heard = listen(stores, "shard", columns=columns, wait=lambda: None)
    session = Subscription(stores, "shard", "c", Wish(columns=columns))
    upper = [stretch.upper for stretch, _ in [next(heard)]]
    assert [delivery.done() for delivery in session.pending()] == [None]
    altered(stores, DROP, ADD)
    with pytest.raises(InvalidRequest, match="another column had this name") as refused:
        next(heard)
    assert refused.value.cure == f"listen anew from {upper[0]} on"
    with pytest.raises(InvalidRequest, match="another column had this name"):
        next(session.pending())
    again = Subscription(stores, "shard", "c", Wish(columns=columns))
    assert [delivery.lower for delivery in again.pending()] == upper
