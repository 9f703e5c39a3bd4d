"""A file counts once, whatever it is called, whenever it comes, however often it is asked for."""

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from strata.errors import Conflict, InvalidRequest, Unavailable
from strata.gc import collect
from strata.ingest import ledger
from strata.ingest.engine import ingest_steps
from strata.ingest.land import files
from strata.ingest.ledger import Ledger, Taken
from strata.ingest.plan import steps_of
from strata.ingest.readers.position import StreamProgress
from strata.ingest.readers.turns import Turn
from strata.ingest.task import IngestReport
from strata.model.runner import Runner, serial
from tests.unit.ingest.test_engine import DAY, SPEC, World


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def run(world: World, first: int, last: int, runner: Runner = serial) -> list[IngestReport]:
    """Ingest the days `first` to `last` of January 1970."""
    steps = steps_of((first - 1) * DAY, last * DAY, "P1D")
    return list(ingest_steps(world.stores, world.settings, "s", steps, runner=runner))


def put(world: World, day: int, name: str, number: int) -> str:
    return world.put(f"in/1970-01-{day:02}/{name}.csv", f"id,name\n{number},x\n")


def ids(world: World) -> Counter[int]:
    found: Counter[int] = Counter()
    for (number, *_), n in world.rows().items():
        found[number] += n
    return found


def test_a_late_file_comes_with_the_next_run_and_is_told(world: World) -> None:
    put(world, 2, "a", 1)
    run(world, 2, 2)
    put(world, 2, "b", 2)
    put(world, 1, "before-the-first-interval", 9)
    put(world, 3, "c", 3)

    [report] = run(world, 3, 3)

    assert (report.counts.files, report.counts.late_files, report.counts.taken_before) == (2, 1, 1)
    assert world.rows() == {(1, "x", DAY): 1, (2, "x", 2 * DAY): 1, (3, "x", 2 * DAY): 1}


def test_many_files_are_told_apart_by_the_tasks_of_the_runner(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def runner(function: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[Any]:
        asked.append(f"{getattr(function, '__name__', 'task')}: {len(items)}")
        return serial(function, items)

    monkeypatch.setattr(files, "HASHED_TOGETHER", 2)
    for name, number in zip("abcde", (1, 2, 3, 2, 5), strict=True):
        put(world, 1, name, number)

    [report] = run(world, 1, 1, runner)

    assert ids(world) == {1: 1, 2: 1, 3: 1, 5: 1}
    assert report.copies == (("in/1970-01-01/d.csv", "in/1970-01-01/b.csv"),)
    assert asked[0] == "_fingerprints: 3"


def test_the_same_interval_again_takes_what_came_late_and_nothing_twice(world: World) -> None:
    put(world, 1, "a", 1)
    run(world, 1, 1)
    put(world, 1, "b", 2)

    [late] = run(world, 1, 1)
    [again] = run(world, 1, 1)
    [following] = run(world, 2, 2)

    assert (late.counts.files, late.counts.late_files) == (1, 1)
    assert (late.lower, late.upper) == (DAY, DAY + 1)
    assert again.already_committed
    assert again.counts.taken_before == 2
    assert (following.lower, following.upper, following.counts.files) == (DAY + 1, 2 * DAY, 0)
    assert ids(world) == {1: 1, 2: 1}


def test_a_past_interval_can_be_filled_by_hand(world: World) -> None:
    for day in (1, 2, 3):
        put(world, day, "a", day)
    run(world, 3, 3)

    reports = run(world, 1, 3)

    counted = [(r.counts.files, r.already_committed) for r in reports]
    assert counted == [(1, False), (1, False), (0, True)]
    assert [r.lower for r in reports[:2]] == [3 * DAY, 3 * DAY + 1]
    assert ids(world) == {1: 1, 2: 1, 3: 1}


def test_what_was_in_before_there_was_a_ledger_is_not_taken(world: World) -> None:
    put(world, 1, "a", 1)
    world.machine.append("s", token="interval-of-old", lower=0, upper=DAY)

    with pytest.raises(InvalidRequest, match="already written"):
        run(world, 1, 1)
    [report] = run(world, 2, 2)

    assert report.counts.files == 0
    assert ids(world) == {}


def test_a_renamed_file_is_not_taken_twice(world: World) -> None:
    before = put(world, 1, "a", 1)
    run(world, 1, 1)
    target = world.root / "in/1970-01-02/renamed.csv"
    target.parent.mkdir()
    Path(before).rename(target)
    put(world, 2, "b", 2)
    put(world, 2, "c", 2)

    [report] = run(world, 2, 2)

    assert report.copies == (
        ("in/1970-01-02/c.csv", "in/1970-01-02/b.csv"),
        ("in/1970-01-02/renamed.csv", "in/1970-01-01/a.csv"),
    )
    assert ids(world) == {1: 1, 2: 1}


def test_equal_files_all_count_where_that_is_declared(tmp_path: Path) -> None:
    world = World(tmp_path, source={**SPEC["source"], "same_content": "each"})
    for day in (1, 2):
        put(world, day, "a", 1)

    run(world, 1, 2)

    assert ids(world) == {1: 2}


def test_a_file_that_changed_is_reported_and_taken_only_on_purpose(world: World) -> None:
    file = put(world, 1, "a", 1)
    run(world, 1, 1)
    os.utime(file, ns=(1, 1))
    assert run(world, 1, 1)[0].changed == ()
    put(world, 1, "a", 2)

    [report] = run(world, 1, 1)

    assert report.changed == ("in/1970-01-01/a.csv",)
    assert world.ingest(file)["changed"] == ["in/1970-01-01/a.csv"]
    assert ids(world) == {1: 1}
    assert world.ingest(file, again=True)["files"] == 1
    assert ids(world) == {1: 1, 2: 1}


def test_again_is_an_operation_of_its_own(world: World) -> None:
    file = put(world, 1, "a", 1)
    world.ingest(file)

    first = world.ingest(file, again=True)
    second = world.ingest(file, again=True)

    assert not first["already_committed"]
    assert first["token"] != second["token"]
    assert world.ingest(file, again=True, token=second["token"])["already_committed"]
    assert ids(world) == {1: 3}
    with pytest.raises(InvalidRequest, match="only named files"):
        world.ingest(again=True, lower=0, upper=1)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    commits=st.lists(
        st.tuples(
            st.lists(st.sampled_from("abcd"), min_size=1, unique=True),
            st.sampled_from(["again", "change", "snapshot", "turn", "two snapshots"]),
        ),
        max_size=8,
    )
)
def test_no_file_that_is_taken_once_more_takes_the_stream_back(
    world: World, commits: list[tuple[list[str], str]]
) -> None:
    book = Ledger(world.stores.blob, world.state)
    begun, at, turns = [0], 0, dict[str, int]()

    for number, (names, kind) in enumerate(commits):
        files = [Taken(name, 1, number, f"{name}{number}") for name in names]
        progress, shown = None, dict[str, Turn]()
        if kind == "turn":  # of a connector without positions
            shown = {f"c{number}": Turn("c", gone=False, done=number, undone=None, placed=True)}
            turns[f"c{number}"] = number
        elif kind != "again":
            fresh = {"change": 0, "snapshot": 1, "two snapshots": 2}[kind]
            at = 0 if fresh else at + 1
            begun += [10 * number + 1 + n for n in range(fresh)]
            older = frozenset(begun[:-1]) - {0}
            progress = StreamProgress(len(begun), begun[-1], commit=at, older=older)
        book.with_files(world.state, files, f"t{number}", progress=progress, turns=shown)

        found = book.progress()
        assert (found.snapshot, found.commit) == (begun[-1], at)
        assert found.older == frozenset(begun[:-1]) - {0}
        assert book.turns() == turns


def test_two_runs_that_take_the_same_file_are_not_both_committed(world: World) -> None:
    put(world, 1, "a", 1)
    others = iter([1])

    def slow(function: Any, items: Sequence[Any]) -> Iterator[Any]:
        for item in items:
            result = function(item)
            for _ in others:
                world.ingest(str(world.root / "in/1970-01-01/a.csv"), lower=-9, upper=-5)
            yield result

    with pytest.raises(Conflict, match="other source files were taken in meanwhile"):
        run(world, 1, 1, runner=slow)
    assert ids(world) == {1: 1}


def test_other_files_of_another_run_do_no_harm(world: World) -> None:
    put(world, 1, "a", 1)
    other = put(world, 9, "b", 2)
    others = iter([1])

    def slow(function: Any, items: Sequence[Any]) -> Iterator[Any]:
        for item in items:
            result = function(item)
            for _ in others:
                world.ingest(other, lower=-9, upper=-5)
            yield result

    run(world, 1, 1, runner=slow)
    assert ids(world) == {1: 1, 2: 1}


def test_a_file_that_grows_while_it_is_read_commits_nothing(world: World) -> None:
    file = put(world, 1, "a", 1)

    def growing(function: Any, items: Sequence[Any]) -> Iterator[Any]:
        Path(file).write_text("id,name\n1,x\n2,y\n")
        yield from map(function, items)

    with pytest.raises(Unavailable, match="changed while it was read"):
        run(world, 1, 1, runner=growing)
    assert world.state.consumed is None


@pytest.mark.parametrize(("short", "reads_each"), [(0, 3.5), (10_000, 2.6)])
def test_the_state_names_few_ledgers_however_many_files_there_are(
    world: World, monkeypatch: pytest.MonkeyPatch, short: int, reads_each: float
) -> None:
    """A segment that is merged is read anew only if it is too long to be kept."""
    reads, read = count(), Ledger._read
    monkeypatch.setattr(ledger, "SHORT_FILES", short)
    monkeypatch.setattr(Ledger, "_read", lambda self, key: (next(reads), read(self, key))[1])
    for number in range(1, 41):
        world.ingest(
            world.put(f"{number}.csv", f"id,name\n{number},x\n"), lower=number, upper=number + 1
        )

    assert next(reads) <= 40 * reads_each
    consumed = world.state.consumed
    assert consumed is not None
    assert len(consumed.segments) <= 6
    assert sum(segment.files for segment in consumed.segments) == 40
    world.now += 10 * DAY
    collect(world.stores, "s", world.settings)
    world.now += 10 * DAY
    collect(world.stores, "s", world.settings)
    stored = [key for key in world.blobs() if "/consumed/" in key]
    assert set(stored) >= {segment.key for segment in consumed.segments}
    assert len(stored) <= 8


Action = tuple[str, int, int]
ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["put", "run", "run", "copy", "named"]),
        st.integers(1, 6),
        st.integers(0, 2),
    ),
    max_size=14,
)


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(ACTIONS)
def test_whatever_happens_each_file_counts_once(
    tmp_path_factory: Any, actions: list[Action]
) -> None:
    world = World(tmp_path_factory.mktemp("law"))
    world.put("in/.keep", "")
    files: list[str] = []
    for action, day, length in actions:
        if action == "put":
            files.append(put(world, day, f"f{len(files)}", len(files)))
        elif action == "copy" and files:
            (world.root / f"in/1970-01-{day:02}").mkdir(exist_ok=True)
            copy = world.root / f"in/1970-01-{day:02}/again{len(files)}-{length}.csv"
            copy.write_text(Path(files[day % len(files)]).read_text())
        elif action == "named" and files:
            world.ingest(files[day % len(files)])
        elif action == "run":
            run(world, day, min(day + length, 6))
    for day in range(1, 7):
        run(world, day, day)

    assert ids(world) == dict.fromkeys(range(len(files)), 1)
