"""Slices cover everything once, and no row group that holds one of its rows is left out."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.format.columns import child, updates_schema
from strata.format.manifest import PartRef, Split
from strata.model.schema import Column, Relation
from strata.model.types import parse_type
from strata.updates import slices
from strata.updates.order import encode_keys, high_key, sort_updates
from strata.updates.slices import (
    WHOLE,
    Slice,
    has_keys_of,
    keeps_order,
    overlapping_groups,
    rows_inside,
    rows_of,
    shared_slice,
)
from tests.support.updates import plain_rows, relations, table, updates

TEXT = Relation(0, (Column(1, "c", parse_type("string")),), (1,), ())


def ref_of(keys: list[bytes], starts: list[int], limit: int, relation: Relation) -> PartRef:
    """Return the reference of a part with these row keys and row groups, keys cut to `limit`."""
    return PartRef(
        key="k", size_bytes=1000, rows=len(keys), run=0, layout="both",
        relation_version=relation.version, order=relation.sort_ids, t_low=0, t_high=0,
        diffs_sum=0, digest=0, retractions=False, key_low=keys[0][:limit],
        key_high=high_key(keys[-1], limit),
        splits=tuple(Split(row, keys[row][:limit]) for row in starts),
    )  # fmt: skip


@st.composite
def parts(draw: st.DrawFn, limit: int) -> tuple[Relation, list[bytes], list[int], PartRef]:
    """Return a relation, the keys of a part's rows, where row groups begin, and its reference."""
    relation = draw(relations(max_columns=2))
    rows = sort_updates(draw(updates(relation).filter(lambda rows: rows.num_rows)), relation)
    keys = encode_keys(rows, relation).to_pylist()
    starts = sorted({0, *draw(st.lists(st.integers(0, len(keys) - 1), max_size=4))})
    return relation, keys, starts, ref_of(keys, starts, limit, relation)


@given(st.data(), st.lists(st.binary(max_size=6), max_size=4))
def test_slices_share_no_row_and_leave_none_out(data: st.DataObject, edges: list[bytes]) -> None:
    relation = data.draw(relations(max_columns=2))
    rows = sort_updates(data.draw(updates(relation)), relation)
    bounds = sorted({*edges} - {b""})

    pieces = [Slice(a, b) for a, b in zip([b"", *bounds], [*bounds, None], strict=True)]

    together = [row for p in pieces for row in plain_rows(rows_of(rows, p, relation), relation)]
    assert together == plain_rows(rows, relation)


@given(st.data(), st.integers(1, 5), st.sampled_from([0, 100, 1 << 20]))
def test_a_slice_has_the_rows_whose_keys_lie_in_it_however_they_are_sought(
    data: st.DataObject, probes: int, probe_bytes: int
) -> None:
    relation = data.draw(relations(max_columns=2))
    rows = sort_updates(data.draw(updates(relation)), relation)
    keys = encode_keys(rows, relation).to_pylist()
    edge = st.sampled_from([b"", *keys, *(k[:3] for k in keys)]) | st.binary(max_size=8)
    low, high = sorted([data.draw(edge), data.draw(edge)])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slices, "PROBES", probes)
        patch.setattr(slices, "PROBE_BYTES", probe_bytes)
        found = rows_of(rows, Slice(low, high), relation)

    assert encode_keys(found, relation).to_pylist() == [key for key in keys if low <= key < high]


@given(st.data(), st.integers(0, 12))
def test_a_group_with_a_row_of_the_slice_is_named(data: st.DataObject, limit: int) -> None:
    relation, keys, starts, ref = data.draw(parts(limit))
    edge = st.sampled_from([*keys, *(k[:3] for k in keys)]) | st.binary(max_size=8)
    low, high = sorted([data.draw(edge), data.draw(edge)])
    piece = Slice(low, high)

    named = overlapping_groups(ref, piece, relation, [relation])

    assert named is not None
    for number, (start, end) in enumerate(zip(starts, [*starts[1:], len(keys)], strict=True)):
        if any(low <= key < high for key in keys[start:end]):
            assert number in named


@given(st.data(), st.integers(0, 12))
def test_rows_that_are_not_looked_at_lie_in_the_slice(data: st.DataObject, limit: int) -> None:
    relation, keys, starts, ref = data.draw(parts(limit))
    edge = st.sampled_from([b"", *keys, *(k[:3] for k in keys)]) | st.binary(max_size=8)
    low, high = sorted([data.draw(edge), data.draw(edge)])
    piece = data.draw(st.sampled_from([Slice(low, high), Slice(low), Slice(b"", high), WHOLE]))
    groups = overlapping_groups(ref, piece, relation, [relation])
    ends = [*starts[1:], len(keys)]
    named = range(len(starts)) if groups is None else groups
    read = [key for number in named for key in keys[starts[number] : ends[number]]]

    inside = rows_inside(ref, groups, piece, relation, [relation])

    assert inside.stop <= len(read)
    for key in read[inside.start : inside.stop]:
        assert piece.low <= key
        assert piece.high is None or key < piece.high


def test_only_row_groups_at_the_borders_are_looked_at() -> None:
    keys = [bytes([1, letter]) for letter in b"abcdefgh"]
    ref = ref_of(keys, [0, 2, 4, 6], 64, TEXT)

    def inside(groups: list[int] | None, low: bytes, high: bytes | None) -> range:
        return rows_inside(ref, groups, Slice(low, high), TEXT, [TEXT])

    assert inside(None, b"", None) == range(8)
    assert inside([0, 1, 2, 3], b"\x01b", None) == range(2, 8)
    assert inside([1, 2, 3], b"\x01d", None) == range(2, 6)
    # The next group's first key may be cut: rows that begin with it may be in the one before.
    assert inside([0, 1, 2], b"", b"\x01e\x00") == range(2)
    assert inside([0, 1, 2], b"", b"\x01f") == range(4)
    assert not inside([1], b"\x01d", b"\x01e")
    wider = Relation(1, (Column(1, "c", parse_type("binary")),), (1,), ())
    assert not rows_inside(ref, None, Slice(b"", b"\xff"), wider, [TEXT, wider])


def test_groups_beside_the_slice_are_left_out() -> None:
    keys = [bytes([1, letter]) for letter in b"abcdefgh"]
    ref = ref_of(keys, [0, 2, 4, 6], 64, TEXT)

    assert overlapping_groups(ref, Slice(b"\x01e", b"\x01f"), TEXT, [TEXT]) == [1, 2]
    assert overlapping_groups(ref, Slice(b"\x01f", b"\x01g"), TEXT, [TEXT]) == [2]
    assert overlapping_groups(ref, Slice(b"\x02", None), TEXT, [TEXT]) == []
    assert overlapping_groups(ref, WHOLE, TEXT, [TEXT]) is None
    close = ref_of([b"\x01a", b"\x01a\x00"], [0, 1], 64, TEXT)
    assert overlapping_groups(close, Slice(b"\x01a", None), TEXT, [TEXT]) == [0, 1]


@given(st.data(), st.integers(0, 12))
def test_a_group_of_a_part_from_before_a_column_was_added_is_named(
    data: st.DataObject, limit: int
) -> None:
    """Its keys are what those of its rows begin with: the greatest lies below its last row."""
    old = data.draw(relations(max_columns=2))
    number = max(old.by_id) + 1
    new = Relation(
        1, (*old.columns, Column(number, "new", parse_type("int64"))), old.key, old.order
    )
    rows = sort_updates(data.draw(updates(old)), old)
    if not rows.num_rows:
        return
    value = data.draw(st.sampled_from([None, -(2**63), 0, 2**63 - 1]))
    column = pa.array([value] * rows.num_rows, pa.int64())
    migrated = rows.append_column(updates_schema(new).field(child(number)), column)
    starts = sorted({0, *data.draw(st.lists(st.integers(0, rows.num_rows - 1), max_size=4))})
    ref = ref_of(encode_keys(rows, old).to_pylist(), starts, limit, old)
    keys = encode_keys(migrated, new).to_pylist()
    low, high = sorted([data.draw(st.sampled_from(keys)), data.draw(st.sampled_from(keys))])
    piece = Slice(low, high + b"\0")

    named = overlapping_groups(ref, piece, new, [old, new])

    assert named is not None
    for number, (start, end) in enumerate(zip(starts, [*starts[1:], len(keys)], strict=True)):
        if any(low <= key <= high for key in keys[start:end]):
            assert number in named


def test_keys_of_another_order_or_type_mean_nothing() -> None:
    text, number = parse_type("string"), parse_type("int32")
    old = Relation(0, (Column(1, "a", text), Column(2, "b", number)), (1,), ())
    wider = Relation(1, (Column(1, "a", text), Column(2, "b", parse_type("int64"))), (1,), ())
    longer = Relation(1, (*old.columns, Column(3, "c", text)), (1,), ())
    shorter = Relation(1, (Column(1, "a", text),), (1,), ())
    turned = Relation(1, old.columns, (1,), (2,))
    between = Relation(1, (old.columns[0], Column(3, "c", text), old.columns[1]), (1,), ())
    ref = ref_of([b"x"], [0], 64, old)

    for new, sorted_still, comparable in (
        (old, True, True),
        (wider, True, False),  # the same order, other bytes
        (longer, True, True),  # the new column is the same in all rows, and sorts last
        (shorter, False, False),  # times are out of order where only b told rows apart
        (turned, False, False),
        (between, True, False),  # the new column comes before b in the bytes of a row
    ):
        assert keeps_order(ref, new, [old, new]) == sorted_still
        assert has_keys_of(ref, new, [old, new]) == comparable
    assert not keeps_order(ref, old, [turned])  # its own version is not known
    assert overlapping_groups(ref, Slice(b"y", b"z"), wider, [old, wider]) is None
    assert table(old, []).num_rows == 0


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        (Slice(b"a", b"c"), Slice(b"b", None), Slice(b"b", b"c")),
        (WHOLE, Slice(b"b", None), Slice(b"b", None)),
        (Slice(b"a", b"b"), Slice(b"b", b"c"), None),
        (Slice(b"c", None), Slice(b"a", b"b"), None),
    ],
)
def test_two_slices_share_the_rows_that_lie_in_both(
    one: Slice, other: Slice, both: Slice | None
) -> None:
    assert shared_slice(one, other) == shared_slice(other, one) == both
