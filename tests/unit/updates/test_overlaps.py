"""What is looked up is what trying each part gives, but for parts that end before the slice."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from strata.format.manifest import PartRef, Split
from strata.model.schema import Column, Relation
from strata.model.types import parse_type
from strata.updates.overlaps import Overlaps
from strata.updates.slices import Slice, end_of, overlapping_groups

TEXT = Relation(0, (Column(1, "c", parse_type("string")),), (1,), ())
KEYS = st.binary(max_size=3)
PART = PartRef("k", 9, 9, 0, "both", 0, (1,), 0, 0, 0, 0, False, b"", None)


@st.composite
def runs(draw: st.DrawFn) -> list[PartRef]:
    """Return a run in order, or one of a damaged manifest, or with parts in another order."""
    edges = draw(st.lists(st.lists(KEYS, min_size=2, max_size=4).map(sorted), max_size=6))
    if draw(st.booleans()):
        edges.sort()
    found = [
        replace(
            PART,
            key=str(number),
            key_low=keys[0],
            key_high=keys[-1],
            splits=tuple(map(Split, range(9), keys[:-1])),
        )
        for number, keys in enumerate(edges)
    ]
    if found and draw(st.booleans()):
        at = draw(st.integers(0, len(found) - 1))
        found[at] = replace(found[at], key_high=None, order=draw(st.sampled_from([(), (1,)])))
    return found


@given(runs(), st.lists(st.tuples(KEYS, KEYS | st.none()), max_size=5))
def test_parts_of_a_slice_are_those_that_each_part_would_say(
    run: list[PartRef], slices: list[tuple[bytes, bytes | None]]
) -> None:
    overlaps = Overlaps(run, [TEXT])
    for low, high in slices:
        piece = Slice(low, high)
        tried = [r for r in run if overlapping_groups(r, piece, TEXT, [TEXT]) != []]
        found = overlaps.of(piece)
        left_out = [r for r in tried if r not in found]
        assert [r for r in tried if r in found] == list(found)
        assert all((end_of(r.key_high) or b"\xff" * 9) <= low for r in left_out)


@given(
    runs(),
    st.dictionaries(st.integers(0, 5).map(str), st.sets(st.integers(0, 2)).map(tuple)),
    st.lists(st.tuples(KEYS, KEYS | st.none()), max_size=5),
)
def test_parts_without_a_chosen_row_group_in_a_slice_are_left_out(
    run: list[PartRef],
    groups: dict[str, tuple[int, ...]],
    slices: list[tuple[bytes, bytes | None]],
) -> None:
    count = {ref.key: max(len(ref.splits), 1) for ref in run}
    groups = {k: tuple(g for g in some if g < count.get(k, 9)) for k, some in groups.items()}
    all_groups, chosen = Overlaps(run, [TEXT]), Overlaps(run, [TEXT], groups)
    for low, high in slices:
        piece = Slice(low, high)
        wanted = [r for r in all_groups.of(piece) if has_chosen(r, piece, groups)]
        assert list(chosen.of(piece)) == wanted


def has_chosen(ref: PartRef, piece: Slice, groups: dict[str, tuple[int, ...]]) -> bool:
    """Return whether a part has a chosen row group in a slice, or any if it has no choice."""
    found = overlapping_groups(ref, piece, TEXT, [TEXT])
    there = range(max(len(ref.splits), 1)) if found is None else found
    return ref.key not in groups or bool(set(groups[ref.key]) & set(there))


def test_one_chosen_row_group_in_a_slice_is_enough() -> None:
    splits = tuple(Split(n, bytes([n])) for n in range(4))
    run = [replace(PART, key_low=b"\0", key_high=b"\4", splits=splits)]
    for groups, expected in (((0, 2), run), ((2,), run), ((0, 3), []), ((), [])):
        found = Overlaps(run, [TEXT], {"k": groups}).of(Slice(b"\2\1", b"\2\7"))
        assert list(found) == expected


def test_few_parts_of_many_are_looked_at() -> None:
    run = [replace(PART, key_low=bytes([n]), key_high=bytes([n, 9])) for n in range(200)]
    overlaps = Overlaps(run, [TEXT])
    assert overlaps._sorted
    assert overlaps.of(Slice(bytes([7]), bytes([9]))) == tuple(run[7:9])
    assert overlaps.of(Slice(bytes([199, 200]))) == ()
    assert overlaps.of(Slice()) == tuple(run)


def test_parts_that_end_in_order_but_do_not_begin_so_are_all_tried() -> None:
    bounds = [(b"\5", b"\6"), (b"\6", b"\7"), (b"\1", b"\x09")]
    run = [replace(PART, key_low=low, key_high=high) for low, high in bounds]

    assert Overlaps(run, [TEXT]).of(Slice(b"", b"\2")) == (run[2],)
