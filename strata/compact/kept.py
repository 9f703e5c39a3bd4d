"""Parts that a merge keeps by reference: they become parts of its output as they are."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from strata.format.manifest import PartRef, stats_rows
from strata.parts.manifests import StoredManifest, StoredPiece
from strata.parts.write import WrittenPart
from strata.store.interface import Blob


@dataclass(frozen=True, slots=True)
class KeptPart:
    """An input part that becomes a part of the output unchanged."""

    ref: PartRef
    manifest: str  # the manifest that lists it, with its statistics


def kept_parts(blob: Blob, shard: str, kept: Sequence[KeptPart]) -> list[WrittenPart]:
    """Return the parts that are kept by reference, with their statistics.

    Raises: Corrupt when a manifest is gone or damaged.
    """
    stats: dict[str, pa.RecordBatch | None] = {}
    for key in dict.fromkeys(part.manifest for part in kept):
        wanted = pa.array([part.ref.key for part in kept if part.manifest == key], pa.string())
        for piece in _holding(StoredManifest.by_key(blob, shard, key), kept):
            table = piece.read()
            table = table.filter(pc.is_in(table["key"], value_set=wanted))
            stats |= zip(table["key"].to_pylist(), stats_rows(table), strict=True)
    return [WrittenPart(replace(part.ref, run=0), stats[part.ref.key]) for part in kept]


def _holding(manifest: StoredManifest, kept: Sequence[KeptPart]) -> Iterator[StoredPiece]:
    """Yield the pieces of a manifest that may list some of the parts."""
    if not manifest.in_pages:
        yield from manifest.pieces()
        return
    low = min(part.ref.key_low for part in kept)
    high = max(part.ref.key_low for part in kept)
    for pages in manifest.leaves(manifest.root(())):
        beyond = pc.fill_null(pc.less(pages["key_high"], low), False)
        some = pages.filter(pc.invert(pc.or_(beyond, pc.greater(pages["key_low"], high))))
        yield from manifest.pieces_of(some)
