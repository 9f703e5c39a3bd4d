"""What is taken from a table, and what is not: each rule by itself."""

import io
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from strata.adopt import delta, delta_log, iceberg, in_place, run
from strata.adopt.calendar import _has_times
from strata.adopt.columns import Fit, RowTally, _changed_inside
from strata.adopt.delta import MAPPED, DeltaPeer, _below, _without_empty
from strata.adopt.delta_files import MARKED, has_marks
from strata.adopt.iceberg import EMPTY, IcebergPeer, _Loaded
from strata.adopt.in_place import InPlace, _Maker
from strata.adopt.kept_nulls import _keeping
from strata.adopt.peer import DataFile, Flow, PeerVersion, VersionDifference
from strata.adopt.renamed import RenamedPeer, named_as
from strata.adopt.run import Adopted, _results, _take_in, _Work
from strata.format.splice import NotSplicedError
from strata.model.schema import Column, Relation
from strata.model.types import parse_type

NONE: Any = None
RELATION = Relation(0, (Column(1, "id", parse_type("int64")),), (1,), ())
SCHEMA = pa.schema({"id": pa.int64()})


def version(**changes: Any) -> PeerVersion:
    return PeerVersion(**{"name": "1", "shown": "1", "at_ms": 0, "columns": SCHEMA} | changes)


def refuse(*_: object) -> Any:
    raise AssertionError("nobody asks for this")


# Columns.


@pytest.mark.parametrize(
    ("kind", "timed"),
    [
        (pa.date32(), True),
        (pa.timestamp("us"), True),
        (pa.list_(pa.date32()), True),
        (pa.struct({"a": pa.int64(), "b": pa.timestamp("us")}), True),
        (pa.int64(), False),
        (pa.list_(pa.string()), False),
    ],
)
def test_days_and_times_are_looked_at_wherever_they_lie(kind: pa.DataType, timed: bool) -> None:
    assert _has_times(kind) is timed


@pytest.mark.parametrize(
    ("before", "default", "said"),
    [(("p",), "q", "pair.q has a default in the table"), (("p",), "p", ""), (("p", "q"), "q", "")],
)
def test_only_a_field_that_is_new_may_have_no_default(
    before: tuple[str, ...], default: str, said: str
) -> None:
    def made(*names: str, **changes: Any) -> PeerVersion:
        kind = pa.struct(dict.fromkeys(names, pa.string()))
        return version(columns=pa.schema({"pair": kind}), **changes)

    record = parse_type("record<p: string, q: string>")
    new = made("p", "q", defaults=frozenset({("pair", default)}))

    column = Column(1, "pair", record)

    assert _changed_inside(column, made(*before), column, new) == said


def test_rows_come_behind_a_batch_without_any() -> None:
    some = [pa.record_batch({"id": pa.array(ids, pa.int64())}) for ids in ([], [1, 2], [], [3])]
    fit, flow = Fit.of("s", RELATION), Flow(version(), False, 1, lambda: iter(some))

    tables = fit.tables(flow, None, fit.schema(flow, None, version()), RowTally())

    assert [table["id"].to_pylist() for table in tables] == [[1, 2], [3]]


def test_a_name_for_a_column_that_is_gone_stays_as_it_is() -> None:
    peer: Any = object()
    earlier = Relation(0, (Column(1, "old", parse_type("int64")),), (1,), ())

    found = named_as(peer, (("a", "id"), ("b", "gone")), RELATION, earlier)

    assert isinstance(found, RenamedPeer)
    assert found.now == {"a": "id", "b": "gone"}
    assert found.then == {"a": "old", "b": "gone"}


# Delta.

PEER = DeltaPeer("lake", "id")


@pytest.mark.parametrize("judged", [False, True])
def test_only_rows_that_come_have_their_calendar_judged(
    monkeypatch: pytest.MonkeyPatch, judged: bool
) -> None:
    asked: list[object] = []
    monkeypatch.setattr(delta, "live_rows", lambda *_: [])
    monkeypatch.setattr(delta, "by_this_calendar", lambda *some: asked.append(some) or [])
    monkeypatch.setattr(delta, "_parted", lambda rows, _: rows)
    monkeypatch.setattr(iceberg, "_batches", lambda *_, judged: [asked.append(judged)])
    how = {"judged": True} if judged else {}

    assert list(PEER._rows_in(version(), [], **how)) == []
    assert bool(asked) is judged
    list(IcebergPeer("lake", "", "id")._some(NONE, (), **how))
    assert asked[-1] is judged


@pytest.mark.parametrize(
    ("marked", "how"),
    [((), "feed"), (("old",), "files"), (("new",), "files"), (("old", "new"), "files")],
)
def test_the_feed_says_nothing_where_either_version_has_marks(
    monkeypatch: pytest.MonkeyPatch, marked: tuple[str, ...], how: str
) -> None:
    answers = {"_features": (), "_fed": True, "_feed_shows": True}
    for name, answer in answers.items():
        monkeypatch.setattr(delta, name, lambda *_, answer=answer: answer)
    monkeypatch.setattr(delta, "has_marks", lambda table: table in marked)
    for name, said in {"_check_added": None, "_by_feed": "feed", "_by_files": "files"}.items():
        monkeypatch.setattr(DeltaPeer, name, lambda *_, said=said: said)

    found: Any = PEER.changes(version(handle="old"), version(handle="new"))

    assert found == how


@pytest.mark.parametrize(
    ("path", "whole"),
    [
        ("a.parquet", "s3://b/t/a.parquet"),
        ("/x/a.parquet", "/x/a.parquet"),
        ("s3://c/a.parquet", "s3://c/a.parquet"),
    ],
)
def test_a_file_lies_below_its_table_unless_it_is_named_whole(path: str, whole: str) -> None:
    assert _below("s3://b/t", path) == whole


@pytest.mark.parametrize(("features", "shown"), [([], ["file"]), ([MAPPED], None)])
def test_files_with_other_names_of_columns_are_not_read_one_by_one(
    monkeypatch: pytest.MonkeyPatch, features: list[str], shown: list[str] | None
) -> None:
    monkeypatch.setattr(delta, "_features", lambda _: features)
    monkeypatch.setattr(delta, "data_files", lambda *_: {"path": "file"})

    assert PEER._shown(version()) == shown


@pytest.mark.parametrize("kind", [pa.string(), pa.binary()])
def test_an_empty_text_of_a_partition_is_null_also_where_none_may_be(kind: pa.DataType) -> None:
    schema = pa.schema([pa.field("p", kind, nullable=False), pa.field("q", pa.string())])
    texts = [pa.array(["", "x"], kind), pa.array(["", ""])]
    batch = pa.RecordBatch.from_arrays(texts, schema=schema)

    found = _without_empty(batch, ["p"])

    assert found.column("p").null_count == 1
    assert found.schema.field("p").nullable
    assert found.column("q").to_pylist() == ["", ""]


@pytest.mark.parametrize(
    ("features", "vectors", "marks"),
    [(None, 0, False), ([MARKED], 0, True), (None, 1, True), ([MARKED], 1, True)],
)
def test_rows_may_be_deleted_by_marks_that_are_declared_or_there(
    features: list[str] | None, vectors: int, marks: bool
) -> None:
    table: Any = SimpleNamespace(
        protocol=lambda: SimpleNamespace(reader_features=features),
        deletion_vectors=lambda: pa.table({"filepath": ["f"] * vectors}),
    )

    assert has_marks(table) is marks


@pytest.mark.parametrize("data", [None, b"", b'{"add": {}}', b'{"commitInfo": {}}'])
def test_a_commit_that_says_no_time_has_none(
    monkeypatch: pytest.MonkeyPatch, data: bytes | None
) -> None:
    def opened(_: str) -> io.BytesIO:
        if data is None:
            raise FileNotFoundError
        return io.BytesIO(data)

    log = SimpleNamespace(open_input_stream=opened)
    monkeypatch.setattr(delta_log, "DeltaStorageHandler", lambda _: None)
    monkeypatch.setattr(delta_log, "PyFileSystem", lambda _: log)

    found = delta_log.commit_of("lake", 7)

    assert found.at_ms == 0, "and the shard takes the time of the adoption"
    assert bool(found.mark) == (data is not None)


# Iceberg.


@pytest.mark.parametrize(
    ("held", "wanted", "current", "overtaken"),
    [
        (3, 2, 4, True),
        (3, 1, 4, True),
        (3, 2, 2, False),  # the table was set back
        (3, 3, 4, False),
        (2, 3, 4, False),
        (3, EMPTY, None, False),
        (3, EMPTY, 4, False),
    ],
)
def test_a_snapshot_is_overtaken_by_those_behind_it_unless_it_is_the_newest(
    held: int, wanted: int, current: int | None, overtaken: bool
) -> None:
    parents: dict[int, int | None] = {4: 3, 3: 2, 2: 1, 1: 7}

    def snapshot(number: int) -> Any:
        known = number in parents
        return SimpleNamespace(parent_snapshot_id=parents[number]) if known else None

    metadata = SimpleNamespace(current_snapshot_id=current, snapshot_by_id=snapshot)
    table: Any = SimpleNamespace(metadata=metadata)
    loaded = _Loaded(table, wanted, NONE)

    peer = IcebergPeer("lake", "", "id")

    assert peer.overtaken(f"{held}-0", version(handle=loaded)) is overtaken


def test_a_catalog_is_known_by_its_name_or_by_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def load(name: str, **more: str) -> Any:
        asked.append((name, more))
        return SimpleNamespace(load_table=lambda address: address)

    monkeypatch.setattr(iceberg, "load_catalog", load)
    loaded: list[Any] = [iceberg._load("a.b", catalog) for catalog in ("mine", "sqlite:///f")]

    assert loaded == ["a.b", "a.b"]
    assert asked == [("mine", {}), ("strata", {"type": "sql", "uri": "sqlite:///f"})]


def test_lists_that_are_made_anew_keep_their_nulls_and_others_stay() -> None:
    array, empty = (pa.array(rows, pa.list_(pa.int64())) for rows in ([None, [1]], [[], [1]]))

    def kept(array: pa.Array | None, made: pa.Array | None) -> pa.Array | None:
        return _keeping(lambda *_: made)(None, None, array)

    assert kept(None, array) is array
    assert kept(array, None) is None
    assert kept(None, None) is None
    assert kept(array, array) is array
    assert kept(array, empty) == array


# Files in their place.


def test_a_file_some_of_whose_rows_do_not_count_is_written_anew() -> None:
    maker = _Maker(NONE, NONE, NONE, NONE, NONE, {}, 0.1)

    with pytest.raises(NotSplicedError, match="some of its rows are deleted"):
        maker.made(DataFile("", lambda: iter(())))


@pytest.mark.parametrize(
    ("why", "sign", "files"),
    [("", -1, refuse), ("", None, refuse), ("", 1, None), ("another layout", 1, refuse)],
)
def test_only_files_that_come_stay_in_their_place(
    monkeypatch: pytest.MonkeyPatch, why: str, sign: int | None, files: Callable[..., Any] | None
) -> None:
    monkeypatch.setattr(in_place, "why_not", lambda *_: why)
    opened: Any = SimpleNamespace(task=SimpleNamespace(spec=None, layout=None))
    flow, asked = Flow(version(), False, sign, lambda: iter(()), files), InPlace()

    assert asked.refer(NONE, opened, NONE, flow, version(), RowTally(), 2) == ([], flow)
    assert [*asked.reasons] == [why or "the table's files cannot be read one by one"]


def work(**changes: Any) -> _Work:
    peer = SimpleNamespace(
        format="delta",
        address="lake",
        identity="id",
        files=lambda _: [SimpleNamespace(address="f")],
    )
    fit = SimpleNamespace(schema=lambda *_: SCHEMA, tables=lambda *_: iter(()))
    facts = {"state": SimpleNamespace(name="s"), "peer": peer, "fit": fit, "held": None}
    facts |= {"version": version(), "difference": VersionDifference("files", ()), "rejected": -1}
    return _Work(**facts | changes)


def test_files_that_the_version_lacks_are_taken_in_if_parts_refer_to_any(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stores: Any = SimpleNamespace(blob=None)
    monkeypatch.setattr(run, "take_in", lambda _, shard, needed: [shard, *needed])
    monkeypatch.setattr(run, "referred_files", lambda *_: ["some"])
    assert _take_in(stores, work()) == ("s", "f")

    monkeypatch.setattr(run, "referred_files", lambda *_: [])
    assert _take_in(stores, work()) == ()


def test_rows_that_are_read_in_several_ways_are_numbered_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    numbers: list[int] = []
    flow = Flow(version(), False, 1, lambda: iter(()))

    def refer(*given: Any) -> tuple[list[Any], Flow]:
        numbers.append(given[-1])
        return [], flow

    monkeypatch.setattr(run, "table_task", lambda *given: [numbers.append(given[2])])
    monkeypatch.setattr(run, "retract_all", lambda *given: [numbers.append(given[-1])])
    asked: Any = SimpleNamespace(refer=refer)
    difference = VersionDifference("replace", (flow,))
    settings: Any = SimpleNamespace(ingest=SimpleNamespace(task_bytes=1))
    opened: Any = SimpleNamespace(task=None)
    stores: Any = SimpleNamespace(blob=None)

    replacing = work(difference=difference, in_place=asked, retracts=True)
    list(_results(stores, settings, replacing, opened))

    assert sorted(numbers) == [0, 1, 2]


@pytest.mark.parametrize(
    ("how", "committed", "already"),
    [
        ("nothing", None, True),
        ("files", None, False),
        ("files", False, False),
        ("files", True, True),
    ],
)
def test_a_version_was_adopted_already_if_nothing_was_left_or_a_double_was_faster(
    how: str, committed: bool | None, already: bool
) -> None:
    report: Any = None if committed is None else SimpleNamespace(already_committed=committed)

    done = work(difference=VersionDifference(how, ())).result(report)

    assert done.already_adopted is already


def test_the_document_says_what_the_table_was_and_what_the_batch_brought() -> None:
    names = ("lower", "upper", "seqno", "updates", "parts", "bytes", "rejected", "token")
    brought = dict.fromkeys([*names, "quarantine", "other"], 5)
    report: Any = SimpleNamespace(to_json=lambda: brought)
    done = Adopted("s", "delta", "lake", "id", "3", None, "files", 2, 1, False, report=report)

    found = done.to_json()

    assert {name: found[name] for name in (*names, "quarantine")} == dict.fromkeys(
        (*names, "quarantine"), 5
    )
    assert (found["shard"], found["version"], found["files_taken_in"]) == ("s", "3", 0)
    assert "other" not in found
