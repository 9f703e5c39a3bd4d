"""A change stream that is delivered again, in part or from its beginning, counts once."""

from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.errors import InvalidRequest
from strata.ingest.ledger import Ledger
from strata.ingest.readers.position import UNKNOWN, Places, legs_of
from tests.unit.ingest.changes.test_tasks import put, run, table_at, world_of
from tests.unit.ingest.test_engine import DAY

Message = dict[str, Any]


def message(op: str, key: int, name: str, at: tuple[int, int], t: int = 1) -> Message:
    """Return a change: `at` is where the commit before it ended, and its own place in the log."""
    row = {"id": key, "name": name, "big": None}
    origin = {"connector": "postgresql", "ts_ms": t, "lsn": at[1], "snapshot": "false"}
    origin["ts_ns"] = 1795294374630786000 + t  # so long that the line's numbers are read as text
    origin["sequence"] = f'["{at[0]}","{at[1]}"]' if at[0] else f'[null,"{at[1]}"]'
    sides = {"before": row, "after": None} if op == "d" else {"before": None, "after": row}
    if op == "t":
        sides = {"before": None, "after": None}
    return {**sides, "op": op, "source": origin, "ts_ms": t + 5}


def read(key: int, name: str, lsn: int, mark: str = "true", t: int = 1) -> Message:
    """Return a row of a snapshot."""
    found = message("r", key, name, (0, lsn), t)
    return {**found, "source": {**found["source"], "snapshot": mark}}


FIRST = [
    read(1, "a", 10, "first"),
    read(2, "b", 10, "last_in_data_collection"),
    message("c", 3, "c", (0, 15)),
    message("u", 1, "a2", (20, 25)),
    message("d", 2, "", (30, 35)),
]
THEN = [message("c", 2, "b2", (40, 45)), message("u", 3, "c2", (50, 55))]
AFTER = {1: ("a2", None), 2: ("b2", None), 3: ("c2", None)}


LOST = [  # the connector starts without its offsets, and knows no commit before its first one
    message("c", 4, "d", (0, 150)),
    message("u", 1, "a3", (0, 160)),
    message("c", 5, "e", (0, 160)),  # of one COPY
    message("u", 4, "d2", (170, 175)),
]


def later(messages: list[Message], days: int) -> list[Message]:
    """Return changes that are committed, or snapshots that are read, on a later day."""
    return [
        {**m, "source": {**m["source"], "ts_ms": m["source"]["ts_ms"] + days * DAY}}
        for m in messages
    ]


def test_a_file_that_is_taken_once_more_leaves_the_stream_where_it_is(tmp_path: Path) -> None:
    """The file's row lost its place in the stream: changes that came again counted anew."""
    world = world_of(tmp_path, "debezium", snapshots="replace", contradictions="count")
    put(world, 1, [read(1, "old", 10, "first"), read(1, "a", 20, "last_in_data_collection")])
    gone = [message("u", 1, "b", (20, 25), DAY), message("d", 1, "", (30, 35), DAY)]
    last = put(world, 2, gone)
    run(world, 1, 2)
    before = Ledger(world.stores.blob, world.state).progress()

    for day in (2, 3):
        world.ingest(last, again=True, lower=day * DAY, upper=(day + 1) * DAY)
    after = Ledger(world.stores.blob, world.state).progress()
    put(world, 5, gone[:1])
    [report] = run(world, 5, 5)

    assert (after, report.counts.repeated) == (before, 1)
    assert table_at(world, 5 * DAY - 1) == {}


@pytest.mark.parametrize("cut", [False, True])
def test_changes_that_come_again_within_a_file_end_no_snapshot(tmp_path: Path, cut: bool) -> None:
    """The snapshot counted as whole: its other rows were left out, and old values stood again."""
    world = world_of(tmp_path, "debezium", snapshots="replace", contradictions="count")
    put(world, 1, FIRST)
    changes = [message("u", 1, "old", (40, 45)), message("u", 1, "new", (50, 55))]
    rows = [
        read(1, "new", 70, "first"),
        read(3, "c", 70),
        read(4, "d", 70, "last_in_data_collection"),
    ]
    older = [read(1, "old", 48, "first"), read(3, "c", 48, "last_in_data_collection")]
    whole = [changes[0], *older, changes[1], *rows]

    put(world, 2, [*changes, rows[0], changes[0], rows[0]] if cut else [*whole, *whole])
    put(world, 3, [*rows[1:], message("u", 3, "c2", (80, 85))])
    run(world, 1, 3)

    assert table_at(world, 3 * DAY - 1) == {1: ("new", None), 3: ("c2", None), 4: ("d", None)}


@pytest.mark.parametrize("whole_topic", [False, True])
def test_what_a_snapshot_has_comes_again_over_several_days(
    tmp_path: Path, whole_topic: bool
) -> None:
    """The second change was left out, because rows of the snapshot followed it: the first stood."""
    world = world_of(tmp_path, "debezium", snapshots="replace", contradictions="count")
    first = [read(1, "a", 10, "first"), read(2, "b", 10, "last_in_data_collection")]
    old, new = message("u", 1, "old", (20, 25)), message("u", 1, "new", (30, 35))
    then = [read(1, "new", 40, "first"), read(2, "b", 40, "last_in_data_collection")]
    put(world, 1, [*first, old, new, *then])
    put(world, 2, [old])
    later = message("u", 2, "c", (50, 55))
    put(world, 3, [*(first if whole_topic else []), old, new, *then, later])

    run(world, 1, 3)

    assert table_at(world, 3 * DAY - 1) == {1: ("new", None), 2: ("c", None)}


@pytest.mark.parametrize("policy", ["replace", "merge", "refuse"])
def test_a_snapshot_that_was_replaced_in_its_own_batch_stays_replaced(
    tmp_path: Path, policy: str
) -> None:
    """Only the newest snapshot of a batch was recorded: the other one emptied the shard later."""
    world = world_of(tmp_path, "debezium", snapshots=policy)
    whole = [read(1, "new", 20, "first"), read(2, "b", 20, "last_in_data_collection")]
    put(world, 1, [read(1, "old", 10, "first"), *whole])
    put(world, 2, [read(1, "old", 10, "first", DAY)])
    put(world, 3, [message("u", 2, "c", (20, 35), 2 * DAY), read(1, "old", 10, "first", 2 * DAY)])

    run(world, 1, 1)
    [second, third] = run(world, 2, 3)

    assert (second.counts.repeated, third.counts.repeated) == (1, 1)
    assert table_at(world, 3 * DAY - 1) == {1: ("new", None), 2: ("c", None)}


def test_what_comes_again_in_the_same_batch_counts_once(tmp_path: Path) -> None:
    world = world_of(tmp_path, "debezium")
    put(world, 1, [*FIRST[:3], *FIRST, *FIRST[2:], *THEN, *THEN[1:]])

    [report] = run(world, 1, 1)

    assert table_at(world, DAY - 1) == AFTER
    assert (report.counts.repeated, report.counts.contradictions) == (7, 0)


@pytest.mark.parametrize("cut", range(len(LOST) + 1))
@pytest.mark.parametrize("again", range(len(LOST)))
def test_a_connector_that_lost_its_offsets_goes_on(tmp_path: Path, cut: int, again: int) -> None:
    """Its first changes have no commit before them, as the very first ones of the stream."""
    world = world_of(tmp_path, "debezium")
    put(world, 1, [*FIRST, *THEN])
    put(world, 2, LOST[:cut])
    put(world, 3, [*LOST[min(again, cut) :], *THEN])

    reports = run(world, 1, 3)

    assert table_at(world, 3 * DAY - 1) == AFTER | {
        1: ("a3", None),
        4: ("d2", None),
        5: ("e", None),
    }
    assert reports[2].counts.repeated == max(0, cut - again) + len(THEN)
    assert [report.counts.contradictions for report in reports] == [0, 0, 0]


def test_all_of_it_in_one_batch(tmp_path: Path) -> None:
    world = world_of(tmp_path, "debezium")
    put(world, 1, FIRST)
    put(world, 2, [*THEN, *LOST[:3], *THEN, *LOST])

    reports = run(world, 1, 2)

    assert table_at(world, 2 * DAY - 1)[5] == ("e", None)
    assert reports[1].counts.repeated == len(THEN) + 3


@pytest.mark.parametrize("op", ["c", "u", "d"])
def test_the_last_change_before_a_cut_comes_again_in_the_next_file(tmp_path: Path, op: str) -> None:
    """The stream went further in the first file than its key did."""
    world = world_of(tmp_path, "debezium")
    lost = message(op, 4 if op == "c" else 1, "d", (0, 150))
    put(world, 1, FIRST)
    put(world, 2, later([*THEN, lost], 1), "a")
    put(world, 2, later([lost], 1), "b")

    reports = run(world, 1, 2)

    assert reports[1].counts.repeated == 1
    assert reports[1].counts.contradictions == 0


@pytest.mark.parametrize("first", range(len(FIRST)))
def test_what_comes_again_in_a_later_batch_counts_once(tmp_path: Path, first: int) -> None:
    world = world_of(tmp_path, "debezium")
    put(world, 1, FIRST)
    put(world, 2, [*FIRST[first:], *later(THEN, 1)])

    reports = run(world, 1, 1) + run(world, 2, 2)

    assert table_at(world, 2 * DAY - 1) == AFTER
    assert [report.counts.late for report in reports] == [0, 0]


def test_rows_at_the_same_place_of_the_log_are_told_by_what_is_in(tmp_path: Path) -> None:
    world = world_of(tmp_path, "debezium")
    copied = [message("c", key, "copied", (20, 25)) for key in range(6)]
    put(world, 1, copied[:3])
    put(world, 2, [*copied[1:], message("d", 5, "", (30, 35))])

    reports = run(world, 1, 1) + run(world, 2, 2)

    assert sorted(table_at(world, 2 * DAY - 1)) == [0, 1, 2, 3, 4]
    assert reports[1].counts.repeated == 2


@pytest.mark.parametrize("apart", [False, True])
def test_changes_from_before_a_snapshot_that_come_again_hide_none_of_its_rows(
    tmp_path: Path, apart: bool
) -> None:
    """The sink was cut off within the snapshot, and begins anew with messages before it."""
    world = world_of(tmp_path, "debezium", snapshots="replace")
    before = [message("c", 1, "a", (20, 25)), message("c", 2, "b", (30, 35))]
    rows = [read(1, "a", 60, "first"), read(2, "b2", 60), read(3, "c", 60, "last")]
    put(world, 1, before)
    put(world, 2, later(rows[:1], 1))
    put(world, 3, later([*before, *([] if apart else rows)], 2))
    put(world, 4, later([*(rows if apart else []), message("u", 1, "a2", (65, 70))], 3))

    reports = run(world, 1, 4)

    assert table_at(world, 4 * DAY - 1) == {1: ("a2", None), 2: ("b2", None), 3: ("c", None)}
    assert not any(report.counts.contradictions for report in reports)


@pytest.mark.parametrize("emptied", ["t", "d"])
def test_a_table_that_is_emptied_and_copied_anew_keeps_rows_of_each_file(
    tmp_path: Path, emptied: str
) -> None:
    """The rows of the copy share a place, and the end of the first file stands between them."""
    world = world_of(tmp_path, "debezium")
    put(world, 1, [message("c", key, "old", (20, 25 + key)) for key in range(4)])
    run(world, 1, 1)
    copied = [message("c", key, "new", (60, 65)) for key in range(4)]
    if emptied == "t":
        removed = [message("t", 0, "", (40, 45))]
    else:
        removed = [message("d", key, "", (40, 45 + key)) for key in range(4)]
    put(world, 2, later([*removed, *copied[:2]], 1), "first")
    put(world, 2, later(copied[1:], 1), "second")

    [report] = run(world, 2, 2)

    assert table_at(world, 2 * DAY - 1) == {key: ("new", None) for key in range(4)}
    assert report.counts.repeated == 1


def test_a_transaction_may_stand_before_another_in_the_log_and_end_behind_it(
    tmp_path: Path,
) -> None:
    world = world_of(tmp_path, "debezium")
    put(world, 1, [message("c", 1, "short", (20, 50))])
    put(world, 2, [message("c", 2, "long", (60, 30)), message("u", 2, "long2", (60, 70))])

    run(world, 1, 1)
    [report] = run(world, 2, 2)

    assert table_at(world, 2 * DAY - 1) == {1: ("short", None), 2: ("long2", None)}
    assert report.counts.repeated == 0


def test_a_truncation_that_comes_again_removes_nothing(tmp_path: Path) -> None:
    world = world_of(tmp_path, "debezium")
    truncation = message("t", 0, "", (40, 45))
    put(world, 1, [*FIRST, truncation, message("c", 9, "new", (50, 55))])
    put(world, 2, [truncation, message("c", 9, "new", (50, 55)), message("c", 8, "", (60, 65))])

    run(world, 1, 1)
    run(world, 2, 2)

    assert table_at(world, DAY - 1) == {9: ("new", None)}
    assert table_at(world, 2 * DAY - 1) == {8: ("", None), 9: ("new", None)}


def test_a_snapshot_that_was_never_whole_is_replaced_by_the_next(tmp_path: Path) -> None:
    world = world_of(tmp_path, "debezium")
    put(world, 1, [read(1, "a", 10, "first"), read(2, "gone", 10)])
    put(world, 2, [read(1, "a", 20, "first"), read(3, "c", 20, "last")])

    run(world, 1, 1)
    assert table_at(world, DAY - 1) == {1: ("a", None), 2: ("gone", None)}
    run(world, 2, 2)

    assert table_at(world, 2 * DAY - 1) == {1: ("a", None), 3: ("c", None)}


AGAIN = later([read(1, "z", 5, "first"), read(7, "y", 5, "last"), message("u", 1, "x", (0, 6))], 1)


def test_another_snapshot_is_refused_unless_declared(tmp_path: Path) -> None:
    world = world_of(tmp_path, "debezium")
    put(world, 1, FIRST)
    put(world, 2, AGAIN)
    run(world, 1, 1)

    with pytest.raises(InvalidRequest, match="another snapshot") as error:
        run(world, 2, 2)

    assert error.value.details["snapshot_lsn"] == 5


@pytest.mark.parametrize(
    ("policy", "after"),
    [
        ("replace", {1: ("x", None), 7: ("y", None)}),
        ("merge", {1: ("x", None), 3: ("c", None), 7: ("y", None)}),
    ],
)
def test_another_snapshot_begins_an_epoch(
    tmp_path: Path, policy: str, after: dict[int, tuple[str, None]]
) -> None:
    world = world_of(tmp_path, "debezium", snapshots=policy)
    put(world, 1, FIRST)
    put(world, 2, AGAIN)
    put(world, 3, [*FIRST, *AGAIN, *later([message("u", 7, "new", (0, 8))], 2)])

    run(world, 1, 1)
    run(world, 2, 2)
    assert table_at(world, 2 * DAY - 1) == after
    [report] = run(world, 3, 3)  # from the beginning, with the snapshot that was replaced

    assert table_at(world, 3 * DAY - 1) == {**after, 7: ("new", None)}
    assert report.counts.repeated == len(FIRST) + len(AGAIN)


def test_the_order_of_commits_is_kept_though_the_clock_of_the_database_goes_back(
    tmp_path: Path,
) -> None:
    world = world_of(tmp_path, "debezium")
    put(world, 1, [message("c", 1, "a", (0, 10), t=500)], "a")
    put(world, 1, [message("c", 2, "b", (20, 30), t=400), message("c", 3, "c", (40, 50), 600)], "b")

    run(world, 1, 1)

    assert table_at(world, 499) == {}
    assert sorted(table_at(world, 500)) == [1, 2]


def test_columns_that_come_or_go_stop_the_stream(tmp_path: Path) -> None:
    world = world_of(tmp_path, "debezium")
    new, less = message("c", 1, "a", (0, 10)), message("c", 2, "a", (0, 20))
    new["after"]["added"] = 1
    del less["after"]["big"]
    for one, match in ((new, "does not declare"), (less, "lacks a column")):
        put(world, 1, [one])
        with pytest.raises(InvalidRequest, match=match):
            run(world, 1, 1)

    reporting = world_of(tmp_path, "debezium", schema_changes="report")
    put(reporting, 1, [new, less])
    [report] = run(reporting, 1, 1)

    assert report.counts.undeclared == {"added"}
    assert sorted(table_at(reporting, DAY - 1)) == [1, 2]


def _stream(random: Random, changes: int) -> list[Message]:
    """Return a stream without contradiction, some of its changes at one place of the log."""
    there: dict[int, str] = {}
    found: list[Message] = []
    commit, lsn, op = 0, 10, ""
    for n in range(changes):
        before, op = op, random.choice("ccccuudt" if there else "c")
        free = [key for key in range(12) if key not in there]
        op = op if op != "c" or free else "u"
        if not (op == before == "c" and random.random() < 0.5):
            commit, lsn = lsn + 2, lsn + 4
        key = random.choice(free if op == "c" else sorted(there))
        found.append(message(op, key, f"v{n}", (commit, lsn), n))
        if op == "t":
            there.clear()
        elif op == "d":
            del there[key]
        else:
            there[key] = f"v{n}"
    return found


@settings(max_examples=10)
@given(seed=st.integers(0, 2**32))
def test_any_delivery_of_a_stream_counts_as_one(seed: int) -> None:
    random = Random(seed)
    stream = _stream(random, random.randrange(1, 25))
    with TemporaryDirectory() as folder:
        once, again = (world_of(Path(folder, name), "debezium") for name in ("once", "again"))
        put(once, 1, stream)
        run(once, 1, 1)
        done, day, taken = 0, 0, 0
        while done < len(stream):
            day += 1
            lines: list[Message] = []
            for _ in range(random.randrange(1, 4)):  # restarts
                first = random.randint(0, done)
                done = random.randint(done, len(stream))
                lines += stream[first:done]
            cut = random.randint(0, len(lines))  # two files of one batch
            put(again, day, lines[:cut], "a")
            put(again, day, lines[cut:], "b")
            if random.random() < 0.5:
                run(again, taken + 1, day)
                taken = day
        reports = run(again, 1, day)

        assert table_at(again, day * DAY - 1) == table_at(once, DAY - 1)
        assert not any(report.counts.contradictions for report in reports)


@pytest.mark.parametrize(
    ("marks", "commits", "whole"),
    [
        ([0, 0, 0], [0, 0, 0], False),
        ([0, 0, 1], [0, 0, 0], True),  # one event ends the snapshot, not each
        ([1, 0, 0], [0, 0, 0], True),
        ([0, 0, 0], [0, 0, 20], True),  # the stream goes on: the snapshot has ended before
    ],
)
def test_a_snapshot_is_whole_with_its_last_event_or_the_stream_behind_it(
    marks: list[int], commits: list[int], whole: bool
) -> None:
    streamed = np.array(commits) > 0
    places = Places(
        np.array(commits, np.int64),
        np.where(streamed, 25, 0),
        np.where(streamed, 0, 10),
        np.array(marks, np.bool_),
    )

    [leg] = legs_of(places, np.array([7, 9, 8]), 100)

    assert (leg.at, leg.time, leg.snapshot, leg.whole, leg.latest) == (100, 7, 10, whole, 9)
    assert (leg.commit, leg.lsn) == ((20, 25) if streamed.any() else (0, 0))


def test_events_without_a_place_have_no_leg() -> None:
    unknown = np.array([UNKNOWN] * 2)
    places = Places(unknown, unknown, np.zeros(2, np.int64), np.zeros(2, np.bool_))

    assert legs_of(places, np.array([1, 2]), 0) == []
