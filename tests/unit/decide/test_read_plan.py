"""Parts of a plan are rows of a manifest until somebody looks at one."""

import pickle
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from strata.decide.read_plan import Parts, PlannedRun, ReadPlan
from strata.format.manifest import PartRef, Split, manifest_table


def ref(number: int) -> PartRef:
    splits = tuple(Split(7 * i, b"%d" % i) for i in range(number % 4))
    return PartRef(
        f"p{number}", 10 + number, 5, number % 2, "both", 1, tuple(range(number % 3)), number,
        number + 1, 5, 2**63 + number, number % 5 == 3, b"k", None if number % 2 else b"z", splits,
        None if number % 3 else 1, number,
    )  # fmt: skip


PARTS = [ref(number) for number in range(300)]
LAZY = Parts(manifest_table(PARTS))


def test_all_are_there_in_order() -> None:
    assert list(LAZY) == PARTS
    assert len(LAZY) == len(PARTS)
    assert LAZY.size_bytes == sum(part.size_bytes for part in PARTS)


@given(st.slices(len(PARTS)), st.integers(-len(PARTS), len(PARTS) - 1))
def test_places_and_slices_are_those_of_a_list(some: slice, place: int) -> None:
    assert LAZY[place] == PARTS[place]
    assert list(LAZY[some]) == PARTS[some]


@given(st.lists(st.booleans(), min_size=12, max_size=12))
def test_a_choice_keeps_the_order_and_tells_of_retractions(wanted: list[bool]) -> None:
    some = LAZY[:12].chosen(wanted)
    kept = [part for part, keep in zip(PARTS, wanted, strict=False) if keep]

    assert list(some) == kept
    assert some.size_bytes == sum(part.size_bytes for part in kept)
    assert some.retractions == any(part.retractions for part in kept)
    assert bool(some) == bool(kept)


def test_equal_rows_are_equal_parts_and_travel() -> None:
    assert LAZY[:5] == Parts(manifest_table(PARTS[:5]))
    assert LAZY[:5] != LAZY[:6]
    assert LAZY[:5] != PARTS[:5]
    assert list(pickle.loads(pickle.dumps(LAZY[3:9]))) == PARTS[3:9]


def plan(*runs: Parts, groups: Mapping[str, tuple[int, ...]] | None = None) -> ReadPlan:
    planned = tuple(PlannedRun(0, 1, 0, number, parts) for number, parts in enumerate(runs))
    return ReadPlan("s", 0, "on", planned, groups=groups or {})


def test_one_retraction_in_one_run_makes_counts_fall() -> None:
    assert [part.retractions for part in PARTS[:5]] == [False, False, False, True, False]
    assert plan(LAZY[:3], LAZY[4:5]).monotonic
    assert not plan(LAZY[:3], LAZY[3:5]).monotonic


def test_of_parts_with_chosen_row_groups_a_share_of_the_bytes_is_read() -> None:
    assert [(part.size_bytes, len(part.splits)) for part in PARTS[:4]] == [
        (10, 0),
        (11, 1),
        (12, 2),
        (13, 3),
    ]

    assert plan(LAZY[:4]).bytes_read == 10 + 11 + 12 + 13
    assert plan(LAZY[:4], groups={"p3": (0, 2)}).bytes_read == 10 + 11 + 12 + 13 * 2 // 3
    assert plan(LAZY[:4], groups={"p2": (1,), "p3": (0,)}).bytes_read == 10 + 11 + 6 + 4
