"""Small blobs are packed as a whole, and damage or a bomb is refused."""

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


def test_damage_and_bombs_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = pack(bytes(range(256)) * 9)
    with pytest.raises(Corrupt, match="damaged"):
        unpack(whole[:9] + b"\xff\xff\xff\xff" + whole[13:])
    monkeypatch.setattr(module, "UNPACKED_MAX", 1_000)
    with pytest.raises(Corrupt, match="too many"):
        unpack(pack(bytes(1_001)))
    assert unpack(pack(bytes(1_000))) == bytes(1_000)
