"""Law 1, its ground: what Spark sees of each value lies in what the statistics are read as."""

from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.decide.specs import PartSpecs
from strata.expr.elements import Elements, Entries
from strata.expr.nodes import Column as Node
from strata.expr.records import Record
from strata.expr.spec import Anything, Bools, Json, Numbers, Spec, Texts
from strata.format.columns import child
from strata.format.encodings import encoding
from strata.format.values.view import to_view
from strata.model.schema import Column, Relation
from strata.model.types import ColumnType
from strata.stats import collect, concat, trim
from strata.stats.bloom import bloom_hashes, filter_of
from strata.stats.members import place_named, values_at
from strata.stats.wire import BITS, BLOOM, SET, bloom_name, set_name
from tests.support.facts import plain
from tests.support.values import arrays, every_type

few = settings(max_examples=max(5, settings.default.max_examples // 4))


def relation_of(declared: ColumnType) -> Relation:
    """Return a relation of one column, with the id 1."""
    return Relation(0, (Column(1, "c", declared),), (1,), ())


def updates(values: pa.Array) -> pa.Table:
    """Return updates of one column."""
    ones = pa.array([1] * len(values), pa.int64())
    return pa.table([values, ones, ones], names=[child(1), "t", "d"])


def column_specs(stats: pa.Table, declared: ColumnType) -> Spec:
    """Return what the statistics say of the column, to a filter that Spark has analysed."""
    ddl = encoding(declared).spark(declared).replace(", ", ",").replace(": ", ":")
    view = PartSpecs(stats, relation_of(declared), ()).at(slice(0, stats.num_rows))
    return view.column(Node(1, "c", ddl))


@pytest.mark.parametrize("declared", every_type(), ids=str)
@few
@given(st.data())
def test_every_value_lies_in_what_its_statistics_are_read_as(
    declared: ColumnType, data: st.DataObject
) -> None:
    parts = data.draw(st.lists(arrays(declared, max_rows=4), min_size=1, max_size=3))
    budget = data.draw(st.sampled_from([0, 20, 40, 10_000]))
    relation = relation_of(declared)
    rows = [trim(collect(updates(p), relation), relation, budget, ())[0] for p in parts]

    spec = column_specs(concat(rows, [len(part) for part in parts]), declared)

    for number, part in enumerate(parts):
        seen = to_view(part, declared)
        for value in seen.cast(plain(seen.type)).to_pylist():
            assert outside(value, spec, number, seen.type) == []


@pytest.mark.parametrize("declared", every_type(), ids=str)
@few
@given(st.data())
def test_every_value_is_among_the_members_of_its_place(
    declared: ColumnType, data: st.DataObject
) -> None:
    parts = data.draw(st.lists(arrays(declared, max_rows=6), min_size=1, max_size=3))
    relation = relation_of(declared)
    stats = concat([collect(updates(p), relation) for p in parts], [len(p) for p in parts])
    many = data.draw(st.booleans())
    for name, column in known_members(parts, relation, stats.column_names, many=many).items():
        stats = stats.append_column(name, column)

    spec = column_specs(stats, declared)

    for number, part in enumerate(parts):
        seen = to_view(part, declared)
        for value in seen.cast(plain(seen.type)).to_pylist():
            assert outside(value, spec, number, seen.type) == []


def known_members(
    parts: list[pa.Array], relation: Relation, names: list[str], *, many: bool
) -> dict[str, pa.Array]:
    """Return sets of the values of each place, part by part; or fetched filters if `many`."""
    places = [place for name in names if (place := place_named(relation, name)) is not None]
    found = [values_at(updates(part), places) for part in parts]
    columns = {}
    for place, values in zip(places, zip(*found, strict=True), strict=True):
        assert all(one is not None for one in values)
        if many:
            bits = [filter_of(np.unique(bloom_hashes(one)), 12) for one in values]
            rows = [{"form": place.form, "key": "k", "size_bytes": 1, BITS: b} for b in bits]
            kind = pa.struct([*BLOOM, (BITS, pa.binary())])
            columns[bloom_name(place.name)] = pa.array(rows, kind)
        else:
            sets = [{"form": place.form, "values": one.to_pylist()} for one in values]
            columns[set_name(place.name)] = pa.array(sets, SET)
    return columns


def outside(value: Any, spec: Spec, part: int, kind: pa.DataType) -> list[str]:
    """Return what of a value is not in the Spec of its part; Python's own comparisons."""
    if value is None:
        return [] if at(spec.null, part) else ["null"]
    match spec.values:
        case Record() as record:
            return _outside_record(value, record, part, kind)
        case Elements() | Entries() as many:
            return _outside_many(value, many, part, kind)
        case Bools() as bools:
            return [] if at(bools.true if value else bools.false, part) else [str(value)]
        case Numbers() as numbers:
            return [*number_outside(value, numbers, part), *not_a_member(value, numbers, part)]
        case Texts() as texts:
            if found := not_a_member(value, texts, part):
                return found
            data = value.encode() if isinstance(value, str) else value
            low, high = (None if b is None else b[part].as_py() for b in (texts.low, texts.high))
            inside = (low is None or low <= data) and (high is None or data <= high)
            return [] if inside and not at(texts.empty, part) else [str(value)]
        case Anything() as other:
            return [] if not at(other.empty, part) else [str(value)]
        case Json():
            return []


def _outside_record(value: Any, record: Record, part: int, kind: pa.DataType) -> list[str]:
    found = [] if not at(record.empty, part) else ["a struct"]
    for ordinal, field in enumerate(kind):
        inner = record.child(ordinal)
        if inner is not None:
            found += outside(value[field.name], inner, part, field.type)
    return found


def _outside_many(value: Any, spec: Elements | Entries, part: int, kind: pa.DataType) -> list[str]:
    if isinstance(spec, Elements):
        return _outside_list(value, spec, part, kind.value_type)
    keys = _outside_list([key for key, _ in value], spec.keys, part, kind.key_type)
    inside = _outside_list([item for _, item in value], spec.values, part, kind.item_type)
    return [*keys, *inside, *(["a map"] if at(spec.empty, part) else [])]


def _outside_list(value: list[Any], lists: Elements, part: int, kind: pa.DataType) -> list[str]:
    short, long = at(lists.shortest, part), at(lists.longest, part)
    found = [] if short <= len(value) <= long else [f"{len(value)} elements"]
    found += ["a list"] if at(lists.empty, part) else []
    element = lists.element()
    assert element is not None
    return found + [text for item in value for text in outside(item, element, part, kind)]


def number_outside(value: Any, numbers: Numbers, part: int) -> list[str]:
    if value != value:  # noqa: PLR0124
        return [] if at(numbers.nan, part) else ["NaN"]
    if isinstance(value, Decimal):  # whole numbers of 10**-scale, exactly
        sign, digits, _ = value.as_tuple()
        value = int("".join(map(str, digits))) * (-1 if sign else 1)
    low, high = at(numbers.low, part), at(numbers.high, part)
    return [] if low <= value <= high and not at(numbers.empty, part) else [str(value)]


def not_a_member(value: Any, values: Numbers | Texts, part: int) -> list[str]:
    """Return what of a value is not among the members of its part."""
    if values.members is None or value != value:  # noqa: PLR0124
        return []
    if isinstance(value, Decimal):
        value = int(value.scaleb(-int(value.as_tuple().exponent), Context(prec=80)))
    elif isinstance(values, Numbers) and values.low.dtype == np.float64:
        value = float(value)
    elif isinstance(value, str):
        value = value.encode()
    held = values.members.may_hold(value)
    return [] if at(held, part) else [f"{value!r} among the members"]


def at(values: np.ndarray, part: int) -> Any:
    """Return the element of one part; an array of one stands for all."""
    return values[part if values.size > 1 else 0]
