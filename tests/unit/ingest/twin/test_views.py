"""What readers see is read back by the twin as what it finds in the stored bytes."""

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from strata.format.values.view import to_view, view_type
from strata.ingest.twin import Undecided, Unreadable, from_python, stored
from strata.model.types import ColumnType, Kind
from tests.support.values import arrays, every_type


def far(column_type: ColumnType) -> bool:
    """Tell whether values may lie beyond the years that ingest takes, or Python's."""
    inner = [field.type for field in column_type.fields]
    inner += [column_type.element] if column_type.element else []
    return column_type.kind in (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ) or any(map(far, inner))


TYPES = [one for one in every_type() if not far(one)]


@given(st.sampled_from(TYPES).flatmap(lambda t: st.tuples(st.just(t), arrays(t))))
def test_a_view_is_the_stored_value(drawn: tuple[ColumnType, pa.Array]) -> None:
    column_type, column = drawn
    seen = to_view(column, column_type).to_pylist()

    found = stored(column, column_type)

    assert not any(isinstance(value, Unreadable) for value in found)
    assert [read(value, column_type) for value in seen] == found


def read(value: Any, column_type: ColumnType) -> Any:
    return from_python(value, view_type(column_type), column_type)


def test_undecided_is_unreadable() -> None:
    assert issubclass(Undecided, Unreadable)
