"""Streams give what their source gives, errors included, and leave nothing behind."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.errors import InvalidRequest, Unavailable
from strata.model.schema import Column, Relation
from strata.model.types import parse_type
from strata.updates.stream import ahead, spilled
from tests.support.updates import contents, plain_rows, relations, split, table, updates

TEXT = Relation(0, (Column(1, "c", parse_type("string")),), (1,), ())


@given(st.lists(st.integers()), st.integers(1, 5))
def test_ahead_gives_every_item_in_order(items: list[int], depth: int) -> None:
    assert list(ahead(iter(items), depth)) == items


def test_ahead_loses_no_item_that_a_slow_reader_lets_wait() -> None:
    found: list[int] = []

    def read_slowly() -> None:
        for item in ahead(range(4)):
            time.sleep(0.25)  # longer than one try to hand over the next item
            found.append(item)

    reader = threading.Thread(target=read_slowly, daemon=True)
    reader.start()
    reader.join(20)

    assert found == [0, 1, 2, 3]


def test_ahead_raises_the_error_where_it_happened() -> None:
    def source() -> Iterator[int]:
        yield 1
        raise ValueError("broken")

    stream = ahead(source())

    assert next(stream) == 1
    with pytest.raises(ValueError, match="broken"):
        next(stream)


def test_ahead_stops_its_thread_when_nobody_reads_on() -> None:
    closed, waiting = threading.Event(), threading.Event()

    def source() -> Iterator[int]:
        try:
            for number in range(10**9):
                if number == 2:  # one was read, one is ready, there is no room for this one
                    waiting.set()
                yield number
        finally:
            closed.set()

    stream = ahead(source())
    next(stream)
    assert waiting.wait(5)
    time.sleep(0.05)
    stream.close()  # type: ignore[attr-defined]

    assert not [t for t in threading.enumerate() if t.name == "strata-ahead"]
    assert closed.wait(1)


@given(st.data())
def test_spilled_rows_come_back_in_order(data: st.DataObject) -> None:
    relation = data.draw(relations())
    rows = data.draw(updates(relation))
    pieces = [rows.slice(a.num_rows * 0, 0) for a in [rows]] + [
        table(relation, []),
        *(rows.slice(i, 3) for i in range(0, rows.num_rows, 3)),
    ]

    back = list(spilled(iter(pieces), rows.schema))

    assert [row for batch in back for row in plain_rows(batch, relation)] == plain_rows(
        rows, relation
    )
    assert contents(back, relation) == contents(split(rows, [5]), relation)


def test_a_spill_reads_its_source_only_when_asked() -> None:
    read = []

    def source() -> Iterator[object]:
        read.append(1)
        yield table(TEXT, [("a", 0, 1)])

    stream = spilled(source(), table(TEXT, []).schema)
    assert not read
    assert sum(batch.num_rows for batch in stream) == 1


def test_a_temporary_file_without_room_is_said_with_the_cure(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It was an error of the system, which no command and no job explains."""
    rows = table(TEXT, [("a", 0, 1)])
    with monkeypatch.context() as patch:
        full = Path("/dev/full").open("wb")  # noqa: SIM115  the stream closes it
        patch.setattr("tempfile.TemporaryFile", lambda **_: full)
        with pytest.raises(Unavailable, match=r"a temporary file cannot be written now .*TMPDIR"):
            list(spilled(iter([rows]), rows.schema))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    with pytest.raises(InvalidRequest, match=r"cannot be written here folder='.*gone'.*TMPDIR"):
        list(spilled(iter([rows]), rows.schema))
    monkeypatch.setattr("tempfile.tempdir", None)  # where all are full, Python finds none
    monkeypatch.setattr("tempfile._candidate_tempdir_list", lambda: ["/dev/null/a"])
    with pytest.raises(InvalidRequest, match=r"here reason=.*/dev/null/a.*\(cure: set TMPDIR"):
        list(spilled(iter([rows]), rows.schema))
