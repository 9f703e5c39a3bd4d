"""Names of statistics columns are one-to-one with columns and paths, whatever the keys hold."""

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from strata.format.encodings import arrow_type, encoding
from strata.model.schema import Column
from strata.model.types import Kind
from strata.stats import wire
from strata.stats.wire import (
    ELEMENT,
    VALUES,
    column_name,
    field_step,
    inside_name,
    parse_inside,
    parse_name,
    path_name,
    scalar_type,
)
from tests.support.facts import EVERY_TYPE

KEYS = st.text(
    st.characters(exclude_categories=["Cs"]) | st.sampled_from("'\\.[]$ \x00\n\x7fu"), max_size=6
)

STEPS = st.one_of(KEYS.map(field_step), st.sampled_from([ELEMENT, wire.KEYS, VALUES]))


@given(st.integers(1, 10**6), st.lists(KEYS, max_size=4).map(tuple))
@example(5, ("\x00", "a\\'", "\\u0041", "u0041"))
@example(5, ("", "']", "['a']", "."))
def test_every_path_has_its_own_name(column_id: int, path: tuple[str, ...]) -> None:
    name = path_name(column_id, path)

    assert parse_name(name) == (column_id, path)
    assert "\x00" not in name


def test_names_survive_arrows_c_interface() -> None:
    name = path_name(5, ("a\x00b", "é"))
    batch = pa.RecordBatch.from_arrays([pa.array([1])], names=[name])

    assert pa.RecordBatch.from_arrays([pa.array([1])], schema=batch.schema).schema.names == [name]
    assert pa.record_batch(batch).schema.names == [name]


@pytest.mark.parametrize(
    "name", ["rows", "s.", "s.x", "s.5$a", "s.5$['a'", "s.5$.", "t", "s.5$[0]"]
)
def test_other_names_are_no_statistics(name: str) -> None:
    assert parse_name(name) is None


def test_a_column_is_not_its_root() -> None:
    assert parse_name(column_name(5)) == (5, None)
    assert parse_name(path_name(5, ())) == (5, ())


@pytest.mark.parametrize("column", EVERY_TYPE.columns, ids=lambda c: str(c.type))
def test_bounds_have_the_type_of_the_column(column: Column) -> None:
    stored = arrow_type(column.type)
    shape = scalar_type(column.type)
    names = {field.name for field in shape}

    if encoding(column.type).stats == "range" and not pa.types.is_struct(stored):
        assert shape.field("low").type == shape.field("high").type == stored
        assert ("nans" in names) == column.type.kind.startswith("float")
    else:
        assert names - {"shortest", "longest"} == {"nulls"}
        assert ("longest" in names) == (column.type.kind in (Kind.LIST, Kind.MAP))


@given(st.integers(1, 10**6), st.lists(STEPS, max_size=4).map(tuple))
def test_every_place_has_its_own_name(column_id: int, steps: tuple[str, ...]) -> None:
    name = inside_name(column_id, steps)

    assert parse_inside(name) == (column_id, steps)
    assert parse_name(name) == (column_id, None)
    assert "\x00" not in name


@given(KEYS)
def test_no_field_is_taken_for_elements(name: str) -> None:
    assert field_step(name) not in (ELEMENT, wire.KEYS, VALUES)


@pytest.mark.parametrize("name", ["s.5/", "s.5//a", "s.5/a b", "s.5/{x}", "s.5$/a", "s.5/a$", "/a"])
def test_other_names_are_no_places(name: str) -> None:
    assert parse_inside(name) is None
    assert parse_name(name) is None
