"""Parts whose rows stay in a file of somebody else: found to be a run, spliced, and proven.

    rows of the file, as updates -> in order? -> tail -> reference -> read back, compared -> part

A column that does not read as it should is taken into the tail, as our own columns are. So a part
that refers to a file reads as the rows that were taken from it, or is not made.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Final

import numpy as np
import pyarrow as pa

from strata.errors import Corrupt, InvalidRequest
from strata.format.columns import D, T, child
from strata.format.digest import hashes_of
from strata.format.layout import Footer
from strata.format.splice import LAYOUT, NotSplicedError, Splicer, their_file
from strata.format.weigh import plain_bytes
from strata.model.schema import Relation
from strata.parts.fetch import PartSource, part_batches
from strata.parts.write import PartTarget, WrittenPart, known_part, trimmed_parts
from strata.store import keys
from strata.store.interface import Blob, Overwriting, Referring
from strata.store.reference import (
    OutsideFile,
    look_outside,
    read_outside,
    refer_to,
)
from strata.store.retry import retry
from strata.updates.order import compare_adjacent, sort_names

TAIL_SHARE: Final = 1 / 2  # of the file's bytes, at most: a longer tail is better a part of its own


@dataclass(frozen=True, slots=True)
class Referred:
    """A part that refers to a file, and what it costs the store."""

    part: WrittenPart
    stored_bytes: int
    file: OutsideFile


def refer(
    target: PartTarget,
    prefix: str,
    address: str,
    rows: Callable[[], pa.Table],
    names: Mapping[int, str],
    *,
    tail_share: float = TAIL_SHARE,
) -> Referred:
    """Return a part of the rows of a file, which stay in it, under a `keys.reference_prefix`.

    `rows` reads them: updates of `target.relation` in the order of the file, all of them. `names`:
    its columns, by the ids of ours. `tail_share`: how much of the file's bytes a tail may have.
    Raises: NotSplicedError if they are no run, or the file cannot be the beginning of a part.
    Cost: reads the file three times: its rows, their hash, and the finished part; writes the tail.
    """
    blob = target.blob
    if not isinstance(blob, Overwriting):
        raise NotSplicedError("this store cannot refer to files")
    try:
        file = retry(partial(look_outside, address))
    except InvalidRequest as error:
        raise NotSplicedError(error.message) from error
    footer = their_file(file.size_bytes, partial(_range, file))
    updates = rows()
    _check_run(updates, target.relation)
    left = dict(names)
    while True:
        said = Footer(LAYOUT, target.relation.version, target.description, updates.num_rows)
        splicer = Splicer(footer, updates, target.relation, said, left, address, target.run)
        tail = splicer.tail()
        if len(tail) > tail_share * file.size_bytes:
            raise NotSplicedError("most of its columns are stored in another way")
        reference, whole = retry(partial(refer_to, file, tail))
        key = keys.part_key(prefix, whole)
        if not _is_whole(blob, key):  # of a repeated run, its bytes may have been taken in
            retry(partial(blob.overwrite, key, reference.encoded()))
        source = PartSource(blob, prefix, (target.relation,), LAYOUT)
        part = _observed(target, updates, footer.rows, key, reference.size_bytes)
        wrong = _wrong(source, part, updates)
        if not wrong:
            [part] = trimmed_parts([part], target)
            return Referred(part, len(reference.encoded()), file)
        retry(partial(blob.delete, key))
        if not wrong & left.keys():
            raise NotSplicedError("it does not read as its rows")
        left = {number: name for number, name in left.items() if number not in wrong}


def _is_whole(blob: Blob, key: str) -> bool:
    assert isinstance(blob, Referring)
    found = retry(partial(blob.referred, key))
    return found is None and retry(partial(blob.get, key, 0, 1)) is not None


def _check_run(updates: pa.Table, relation: Relation) -> None:
    if not bool((compare_adjacent(updates, sort_names(relation)) < 0).all()):
        raise NotSplicedError("its rows are in another order, or repeat")


def _observed(
    target: PartTarget, updates: pa.Table, groups: list[int], key: str, size_bytes: int
) -> WrittenPart:
    some = [
        updates.slice(start, count).combine_chunks()
        for start, count in zip(accumulate(groups, initial=0), groups, strict=False)
    ]
    sizes = [plain_bytes(group) for group in some]
    seen = target.observed(max(sizes))
    for group, size in zip(some, sizes, strict=True):
        seen.add(group, size)
        seen.look()
    return known_part(target, seen.finish(), key, size_bytes, seen.seconds)


def _range(file: OutsideFile, start: int, length: int) -> bytes:
    return retry(partial(read_outside, file, start, length))


def _wrong(source: PartSource, part: WrittenPart, updates: pa.Table) -> set[int]:
    """Return which columns of a part do not read as its rows; t and d count as column -1."""
    wrong: set[int] = set()
    start = 0
    try:
        for batch in part_batches(source, part.ref):
            wanted = updates.slice(start, batch.num_rows).combine_chunks().to_batches()[0]
            start += batch.num_rows
            wrong |= {n for n in source.relation.by_id if not _alike(batch, wanted, n)}
            if any(not batch.column(name).equals(wanted.column(name)) for name in (T, D)):
                wrong.add(-1)
    except Corrupt as error:
        raise NotSplicedError(f"its columns cannot be read: {error.message}") from error
    return wrong


def _alike(some: pa.RecordBatch, others: pa.RecordBatch, number: int) -> bool:
    """Return whether both have the same values in a column; NaN is NaN, and -0.0 is not 0.0.

    Errs: one in 2**64 that differ.
    """
    one, other = (batch.column(child(number)) for batch in (some, others))
    hashes, wanted = (hashes_of(len(side), [(number, side)]) for side in (one, other))
    return one.null_count == other.null_count and bool(np.array_equal(hashes, wanted))
