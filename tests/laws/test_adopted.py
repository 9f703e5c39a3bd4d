"""A shard that adopts a table equals it: after any history, whichever way the changes are found.

The table is read by its own library, whole. The shard has read it once, and then only changes.
"""

import math
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import settings as trying
from hypothesis import strategies as st

from strata.adopt.columns import Fit, RowTally
from strata.adopt.delta import DeltaPeer
from strata.adopt.in_place import InPlace
from strata.adopt.peer import PeerVersion, VersionDifference
from strata.machine.machine import Machine
from tests.support.adopted import NAME, DeltaWorld, IcebergWorld, Mirror, deeds
from tests.support.sizes import tries

DELTA = deeds(
    "append",
    "overwrite",
    "delete",
    "update",
    "merge",
    "optimize",
    "checkpoint",
    "switch",
    "widen",
    "restore",
)
KEEPING = deeds("append", "overwrite", "delete", "update", "merge", "optimize", "switch", "widen")
ICEBERG = deeds("append", "overwrite", "delete", "hide", "upsert", "widen", "promote", "roll_back")


def follow(
    world: Any, history: list[tuple[str, Any, int, bool]], *, in_place: bool = False
) -> None:
    """Do what a history says; the shard follows now and then, and at its end.

    `in_place`: its parts refer to files, and the table's owner removes those that he does not need.
    """
    mirror = Mirror()
    mirror.create()
    seen: dict[int, Counter[Any]] = {}
    for deed, cells, number, follows in [*history, ("append", history[0][1], 0, True)]:
        name = getattr(world, deed)(cells, number)
        if deed == "widen":
            mirror.add(name, "int64")
            seen = {}  # earlier times have the column now
        if follows:
            how = {"in_place": InPlace(math.inf)} if in_place else {}
            done = mirror.adopt(world.peer(), **how)
            again = mirror.adopt(world.peer(), **how)
            if in_place:
                world.vacuum()
            assert mirror.read() == world.rows()
            assert again.already_adopted
            if done.report is not None:
                seen[done.report.lower] = mirror.read()
    assert {at: mirror.read(at) for at in seen} == seen


@trying(max_examples=tries(4, 400))
@given(DELTA, st.booleans(), st.booleans())
def test_a_mirror_of_a_delta_table_equals_it(history: Any, feed: bool, parted: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        follow(DeltaWorld(Path(folder), feed=feed, parted=parted), history)


@trying(max_examples=tries(4, 400))
@given(deeds("append", "hide", "overwrite", "optimize"), st.booleans(), st.booleans())
def test_a_mirror_of_a_table_with_marks_equals_it(history: Any, feed: bool, parted: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = DeltaWorld(Path(folder), feed=feed, parted=parted)
        world.allow_marks()
        follow(world, history)


@trying(max_examples=tries(4, 400))
@given(ICEBERG)
def test_a_mirror_of_an_iceberg_table_equals_it(history: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        follow(IcebergWorld(Path(folder)), history)


def sums(mirror: Mirror, found: VersionDifference, new: PeerVersion) -> Counter[Any]:
    """Return by how much the count of each row grows."""
    state = Machine(mirror.stores).load(NAME)
    fit, more = Fit.of(NAME, state.relation), Counter[Any]()
    for flow in found.flows:
        schema = fit.schema(flow, state.relation, new)
        for table in fit.tables(flow, state.relation, schema, RowTally()):
            for row in table.to_pylist():
                d = row.pop("strata_d")
                more[tuple(sorted(row.items()))] += d
    return Counter({row: n for row, n in more.items() if n})


@trying(max_examples=tries(4, 400))
@given(deeds("append", "overwrite", "delete", "update", "merge", "optimize"), st.booleans())
def test_the_change_feed_says_what_the_files_say(history: Any, parted: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world, mirror = DeltaWorld(Path(folder), feed=True, parted=parted), Mirror()
        mirror.create()
        for deed, cells, number, _ in history:
            getattr(world, deed)(cells, number)
        peer = DeltaPeer.open(world.at)
        old, new = peer.version(0), peer.version(None)
        fed, filed = peer.changes(old, new), peer._by_files(old, new)

        assert new.name == "0" or fed.how == "feed"
        assert sums(mirror, fed, new) == sums(mirror, filed, new)


@trying(max_examples=tries(6, 400))
@given(KEEPING, st.booleans(), st.booleans())
def test_a_mirror_that_refers_to_the_files_of_delta_equals_it(
    history: Any, feed: bool, parted: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        follow(DeltaWorld(Path(folder), feed=feed, parted=parted), history, in_place=True)


@trying(max_examples=tries(6, 400))
@given(deeds("append", "overwrite", "delete", "hide", "upsert", "widen", "promote"))
def test_a_mirror_that_refers_to_the_files_of_iceberg_equals_it(history: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        follow(IcebergWorld(Path(folder)), history, in_place=True)
