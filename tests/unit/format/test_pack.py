"""Small blobs are packed as a whole, and damage or a bomb is refused."""

from pathlib import Path

import pytest

from strata.errors import Corrupt
from strata.format import pack as module
from strata.format.pack import pack, unpack


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
