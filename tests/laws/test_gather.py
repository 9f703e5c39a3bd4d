"""Rows gathered out of several arrays are those of the arrays joined."""

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from strata.updates.gather import WantedRows

TEXTS = st.none() | st.text("ab\0é", max_size=20)
LISTS = st.none() | st.lists(st.integers(-5, 5), max_size=4)
KINDS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.string(), TEXTS),
    (pa.string(), st.text("ab", max_size=20)),
    (pa.binary(), st.none() | st.binary(max_size=20)),
    (pa.list_(pa.int32()), LISTS),
    (pa.list_(pa.timestamp("us")), LISTS),
    (pa.list_(pa.int64()), st.none() | st.lists(st.none() | st.integers(0, 3), max_size=3)),
    (pa.list_(pa.string()), st.lists(TEXTS, max_size=3)),
    (pa.int64(), st.none() | st.integers(-9, 9)),
    (pa.bool_(), st.none() | st.booleans()),
]


@st.composite
def arrays(draw: st.DrawFn) -> list[pa.Array]:
    """Return a few arrays of one type, each a slice of a longer one; something lies under nulls."""
    kind, values = draw(st.sampled_from(KINDS))
    found = []
    for _ in range(draw(st.integers(1, 4))):
        whole = pa.array(draw(st.lists(values, min_size=1, max_size=12)), kind)
        if draw(st.booleans()) and not pa.types.is_boolean(kind) and whole.type.num_fields == 0:
            hidden = np.packbits(np.arange(len(whole)) % 3 != 1, bitorder="little")
            buffers = [pa.py_buffer(hidden), *whole.buffers()[1:]]
            whole = pa.Array.from_buffers(kind, len(whole), buffers)
        start = draw(st.integers(0, len(whole)))
        found.append(whole.slice(start, draw(st.integers(0, len(whole) - start))))
    return found


@given(st.data(), arrays())
def test_gathered_rows_are_those_of_the_joined_arrays(
    data: st.DataObject, sources: list[pa.Array]
) -> None:
    count = sum(len(source) for source in sources)
    some = st.lists(st.integers(0, count - 1), max_size=30) if count else st.just([])
    rows = np.array(data.draw(some), np.int64)

    found = WantedRows([len(source) for source in sources], rows).of(sources)

    found.validate(full=True)
    assert found.type == sources[0].type
    assert found.equals(pa.concat_arrays(sources).take(pa.array(rows)))
