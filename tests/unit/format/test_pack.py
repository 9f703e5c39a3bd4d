"""Small blobs are packed as a whole, and damage or a bomb is refused."""

from pathlib import Path

import pyarrow as pa
import pytest

from strata.errors import Corrupt
from strata.format import pack as module
from strata.format.pack import MAGIC, encode_table, open_table, pack, unpack


def test_what_is_packed_is_unpacked() -> None:
    for data in (b"", b"a", b"abc" * 10_000, bytes(range(256))):
        assert unpack(pack(data)) == data
        assert pack(data) == pack(data), "equal blobs have one name"
    assert len(pack(b"abc" * 10_000)) < 100


def test_what_is_not_packed_stays_as_it_is() -> None:
    assert unpack(b"ARROW1\0\0") == b"ARROW1\0\0"


def test_damage_takes_no_memory_for_good() -> None:
    """PyArrow's `read` leaves behind what it makes room for: in the end no process can fork."""
    whole = pack(bytes(range(256)) * 9)
    before = _mapped_mib()
    for at in range(200):
        with pytest.raises(Corrupt, match="damaged"):
            unpack(whole[: 5 + at % 4] + b"\xff\xff\xff\xff" + whole[13:])
    assert _mapped_mib() - before < 1_000  # 200 times the largest are 12,800


def _mapped_mib() -> int:
    """Return the address space of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    [size] = [line.split()[1] for line in lines if line.startswith("VmSize:")]
    return int(size) >> 10


def test_damage_and_bombs_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = pack(bytes(range(256)) * 9)
    with pytest.raises(Corrupt, match="damaged"):
        unpack(whole[:9] + b"\xff\xff\xff\xff" + whole[13:])
    monkeypatch.setattr(module, "UNPACKED_MAX", 1_000)
    with pytest.raises(Corrupt, match="too many"):
        unpack(pack(bytes(1_001)))
    assert unpack(pack(bytes(1_000))) == bytes(1_000)


def test_columns_of_a_packed_table_are_plain_and_of_a_larger_one_compressed() -> None:
    table = pa.table({"a": ["x" * 1000] * 100, "b": list(range(100))})
    small, large = encode_table(table, 1 << 20), encode_table(table, 0)
    assert small.startswith(MAGIC)
    assert not large.startswith(MAGIC)
    assert len(unpack(small)) > table.nbytes > 10 * len(large)
    for data in (small, large):
        assert open_table(unpack(data)).read_all() == table
        assert open_table(unpack(data), [1]).read_all() == table.select(["b"])


def test_what_earlier_versions_compressed_twice_is_read() -> None:
    table = pa.table({"a": ["x" * 1000] * 100})
    assert open_table(unpack(pack(encode_table(table, 0)))).read_all() == table
