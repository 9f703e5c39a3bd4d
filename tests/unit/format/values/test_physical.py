"""Arrow's buffers as kernels see them: read-only, whoever made them, and no byte longer."""

import numpy as np
import pyarrow as pa
import pytest

from strata.format.values.physical import kernel_bytes, numbers


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
