"""Kernels that have addresses of texts only read nothing behind the memory that these lie in."""

import ctypes
import mmap
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from strata.updates.arrange import arrange
from strata.updates.gather import WantedRows

TEXTS = ["b", "", "abcdefgh" * 3 + "x", "abcdefgh" * 3, "ab", "abcdefghi", "abc", "a"]


@pytest.fixture
def page() -> Iterator[tuple[mmap.mmap, int]]:
    """Memory of one page, and its address; to read what follows it ends the process."""
    memory = mmap.mmap(-1, 2 * mmap.PAGESIZE)
    held = ctypes.c_char.from_buffer(memory)
    address, libc = ctypes.addressof(held), ctypes.CDLL(None, use_errno=True)
    behind = ctypes.c_void_p(address + mmap.PAGESIZE), ctypes.c_size_t(mmap.PAGESIZE)
    assert libc.mprotect(*behind, 0) == 0
    yield memory, address
    assert libc.mprotect(*behind, mmap.PROT_READ | mmap.PROT_WRITE) == 0
    del held


@pytest.mark.parametrize("last", range(len(TEXTS)))
def test_texts_at_the_end_of_memory_are_gathered_and_arranged(
    page: tuple[mmap.mmap, int], last: int
) -> None:
    memory, address = page
    texts = [*TEXTS[last + 1 :], *TEXTS[: last + 1]]
    data = "".join(texts).encode()
    start = mmap.PAGESIZE - len(data)
    memory[start : mmap.PAGESIZE] = data
    ends = np.cumsum([0, *map(len, texts)]).astype(np.int32)
    buffers = [None, pa.py_buffer(ends), pa.foreign_buffer(address + start, len(data), memory)]
    at_end = pa.Array.from_buffers(pa.string(), len(texts), buffers)
    whole = pa.chunked_array([at_end, pa.array(texts)])
    rows = np.arange(len(whole))

    assert WantedRows([len(texts)] * 2, rows).of(whole.chunks).to_pylist() == [*texts, *texts]
    for columns in ([whole], [pa.array([1] * len(whole)), whole]):
        order, equal = arrange(columns)
        assert [whole[i].as_py() for i in order] == sorted([*texts, *texts])
        assert equal.tolist() == [False, True] * len(texts)
