"""Prove an erasure: look for the erased rows in every blob that is still stored.

by scan    the filter runs on the rows of every part, without statistics
by hashes  each row of every part, named or not, is tested by a Bloom filter of the erased keys
           and rows; what passes is compared exactly
by terms   every other blob, and every stored state, is searched
"""

from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa

from strata.erase.parts import Finder, RowsTask, tasks_of
from strata.erase.remove import known_suppressed, parts_of
from strata.erase.texts import Terms
from strata.errors import Corrupt
from strata.format.digest import mix
from strata.format.part import read_part
from strata.kernels.arrays import Bools, Words
from strata.machine.machine import Machine
from strata.model.runner import Runner, serial
from strata.parts.fetch import part_batches
from strata.parts.suppressed import Suppressed
from strata.state.codec import encode_state
from strata.state.state import State
from strata.store.keys import BlobKind, blob_kind, shard_prefix
from strata.store.open import Stores
from strata.store.retry import retry

BITS: Final = 24  # of the Bloom filter for each word; then one test in 100,000 errs
BITS_MIN: Final = 960  # for one row, 64 bits erred once in 1,000; a power of two does as well
HASHES: Final = 17
LEFT_MAX: Final = 100  # places that a certificate lists


@dataclass(frozen=True)
class Bloom:
    """A Bloom filter of words: says surely no, or perhaps."""

    bits: np.ndarray[Any, np.dtype[np.uint8]]
    size: int  # bits

    @classmethod
    def of(cls, words: Words) -> "Bloom":
        """Return the filter of some words."""
        size = max(BITS_MIN, BITS * len(words))
        flags = np.zeros(size, np.uint8)
        for places in _places(words, size):
            flags[places] = 1
        return cls(np.packbits(flags), size)

    def may_hold(self, words: Words) -> Bools:
        """Return which words may be among those that it was made of. Errs: may say yes wrongly."""
        found: Bools = np.ones(len(words), np.bool_)
        for places in _places(words, self.size):
            found &= (self.bits[places >> 3] >> (7 - (places & 7)) & 1).astype(np.bool_)
        return found

    def to_json(self) -> dict[str, Any]:
        """Return the filter, so that anybody with the salt can test a key."""
        return {
            "bits": self.size,
            "hashes": HASHES,
            "base64": b64encode(self.bits.tobytes()).decode(),
        }


def _places(words: Words, size: int) -> Iterator[np.ndarray[Any, np.dtype[np.int64]]]:
    step = mix(words) | np.uint64(1)
    for number in range(HASHES):
        yield ((words + np.uint64(number) * step) % np.uint64(size)).astype(np.int64)


@dataclass
class Proof:
    """What was looked at in one shard, and where something was found."""

    shard: str
    seqno: int = 0
    parts: int = 0
    rows: int = 0
    matching: int = 0  # rows that the filter accepts
    bloom_hits: int = 0  # rows that the Bloom filter lets pass
    hash_hits: int = 0  # of these, rows that were erased
    blobs: int = 0  # that are no parts, searched for terms
    states: int = 0  # searched for terms
    left: list[str] = field(default_factory=list)  # where a term is still found

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {**vars(self), "left": self.left[:LEFT_MAX], "left_places": len(self.left)}


@dataclass(frozen=True)
class Erased:
    """The words of the erased rows of one shard; picklable."""

    suppressed: Suppressed
    keys: Words
    rows: Words
    bloom: Bloom

    @classmethod
    def by(cls, suppressed: Suppressed, erasure: str) -> "Erased":
        """Return what one erasure has suppressed."""
        found, rows = suppressed.of("key", erasure), suppressed.of("row", erasure)
        return cls(suppressed, found, rows, Bloom.of(np.concatenate([found, rows])))


def prove(
    stores: Stores,
    name: str,
    finder: Finder,
    erasure: str,
    terms: Terms,
    runner: Runner = serial,
) -> tuple[Proof, Erased]:
    """Return what is found of an erasure's rows and terms in everything that a shard has stored.

    Raises: Corrupt for a blob that cannot be read: nobody knows what it holds.
    Cost: reads every blob of the shard.
    """
    state = Machine(stores).load(name)
    erased = Erased.by(known_suppressed(stores, state), erasure)
    refs = parts_of(stores, state)
    proof = Proof(name, state.seqno, len(refs))
    proof.matching = sum(len(rows) for rows in finder(state, [*refs.values()]).values())
    tasks = tasks_of(stores, state, [*refs.values()], {}, erased.suppressed)
    for counts in runner(partial(look_at, erased), tasks):
        _count(proof, counts)
    for info in retry(lambda: [*stores.blob.list(shard_prefix(name))]):
        if info.key in refs or (data := retry(partial(stores.blob.get, info.key))) is None:
            continue
        if blob_kind(info.key) is BlobKind.PART:  # of a writer that has not committed it
            proof.parts += 1
            _count(proof, _counted(erased, state, _unnamed(state, info.key, data)))
        elif blob_kind(info.key) is not None:
            proof.blobs += 1
            if terms.in_blob(info.key, data):
                proof.left.append(info.key)
    for stored in Machine(stores).states(name):
        proof.states += 1
        if terms.within(encode_state(stored)):
            proof.left.append(f"state {stored.seqno}")
    return proof, erased


def look_at(erased: Erased, task: RowsTask) -> tuple[int, int, int]:
    """Return a part's rows, those that pass the Bloom filter, and those that were erased."""
    source = task.source()
    batches = part_batches(source, task.ref, threads=False)
    return _totals(_of_batch(erased, source.relation, batch) for batch in batches)


def _counted(
    erased: Erased, state: State, batches: Sequence[pa.RecordBatch]
) -> tuple[int, int, int]:
    return _totals(_of_batch(erased, state.relation, batch) for batch in batches)


def _of_batch(erased: Erased, relation: Any, batch: pa.RecordBatch) -> tuple[int, int, int]:
    key_words = erased.suppressed.key_words(batch, relation)
    row_words = erased.suppressed.row_words(batch, relation)
    perhaps = erased.bloom.may_hold(key_words) | erased.bloom.may_hold(row_words)
    hits = np.isin(key_words[perhaps], erased.keys) | np.isin(row_words[perhaps], erased.rows)
    return batch.num_rows, int(perhaps.sum()), int(hits.sum())


def _totals(counts: Iterator[tuple[int, int, int]]) -> tuple[int, int, int]:
    rows, perhaps, hits = 0, 0, 0
    for one in counts:
        rows, perhaps, hits = rows + one[0], perhaps + one[1], hits + one[2]
    return rows, perhaps, hits


def _unnamed(state: State, key: str, data: bytes) -> list[pa.RecordBatch]:
    """Return the rows of a part that no state names yet."""
    try:
        return [*read_part(data, state.relation, relations=state.relations)]
    except Corrupt as error:
        raise Corrupt(
            "a part that no state names cannot be read", part=key, reason=str(error)
        ) from error


def _count(proof: Proof, counts: tuple[int, int, int]) -> None:
    proof.rows += counts[0]
    proof.bloom_hits += counts[1]
    proof.hash_hits += counts[2]
