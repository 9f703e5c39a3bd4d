"""The memory stores keep the contract of the seams."""

import pytest

from strata.store.interface import Versioned
from strata.store.memory import MemoryBlob, MemoryConsensus, memory_blob, memory_consensus
from tests.conformance.blob import BlobSuite
from tests.conformance.consensus import ConsensusSuite


class RawMemoryBlob:
    def __init__(self, blob: MemoryBlob) -> None:
        self.live = blob.live

    def read(self, key: str) -> bytes | None:
        return self.live[key][0] if key in self.live else None

    def write(self, key: str, data: bytes) -> None:
        self.live[key] = (data, 1_700_000_000_000)

    def keys(self) -> list[str]:
        return sorted(self.live)


class RawMemoryConsensus:
    def __init__(self, consensus: MemoryConsensus) -> None:
        self.log = consensus.log

    def values(self, key: str) -> list[tuple[int, bytes]]:
        return [(v.seqno, v.data) for v in self.log.get(key, [])]

    def write(self, key: str, seqno: int, data: bytes) -> None:
        self.log.setdefault(key, []).append(Versioned(seqno, data))


class TestMemoryBlob(BlobSuite):
    @pytest.fixture
    def blob(self) -> MemoryBlob:
        return MemoryBlob()

    @pytest.fixture
    def raw(self, blob: MemoryBlob) -> RawMemoryBlob:
        return RawMemoryBlob(blob)


class TestMemoryConsensus(ConsensusSuite):
    @pytest.fixture
    def consensus(self) -> MemoryConsensus:
        return MemoryConsensus()

    @pytest.fixture
    def raw(self, consensus: MemoryConsensus) -> RawMemoryConsensus:
        return RawMemoryConsensus(consensus)


def test_a_name_means_one_store_in_the_process() -> None:
    assert memory_blob("test-memory-1") is memory_blob("test-memory-1")
    assert memory_blob("test-memory-1") is not memory_blob("test-memory-2")
    assert memory_consensus("test-memory-1") is memory_consensus("test-memory-1")
