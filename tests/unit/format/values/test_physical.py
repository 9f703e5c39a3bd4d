"""Arrow's buffers as kernels see them: read-only, whoever made them, and no byte longer."""

import numpy as np
import pyarrow as pa
import pytest

from strata.format.values.physical import kernel_bytes, number_dtype, numbers


@pytest.mark.parametrize("buffer", [None, pa.py_buffer(b""), pa.allocate_buffer(0)])
def test_nothing_has_no_byte(buffer: pa.Buffer | None) -> None:
    """An offset behind it would pass as one inside."""
    assert kernel_bytes(buffer).tolist() == []
    assert not kernel_bytes(buffer).flags.writeable


def test_buffers_that_may_be_written_are_read_only() -> None:
    mutable = pa.py_buffer(bytearray(b"ab"))
    assert mutable.is_mutable
    assert kernel_bytes(mutable).tolist() == [97, 98]
    assert not kernel_bytes(mutable).flags.writeable
    whole = pa.Array.from_buffers(pa.int8(), 2, [None, mutable])
    for array in (whole, whole[1:], whole[:0]):
        found = numbers(array, np.dtype(np.int8))
        assert found.tolist() == array.to_pylist()
        assert not found.flags.writeable


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        (pa.int16(), "<i2"),
        (pa.uint64(), "<u8"),
        (pa.float32(), "<f4"),
        (pa.float64(), "<f8"),
        (pa.date32(), "<i4"),
        (pa.timestamp("us"), "<i8"),
        (pa.timestamp("us", "UTC"), "<i8"),
        (pa.string(), None),
        (pa.bool_(), None),
        (pa.decimal128(10, 2), None),
        (pa.list_(pa.int32()), None),
        (pa.duration("us"), None),
        (pa.float16(), None),
    ],
)
def test_numbers_and_times_are_numbers_of_numpy(kind: pa.DataType, found: str | None) -> None:
    assert number_dtype(kind) == (None if found is None else np.dtype(found))
