"""Sets and bloom filters of the rows of random parts, for `tests/spark/ranges.py`.

They hold exactly the rows' values, so an answer that they rule out is an escape.
"""

import random

import numpy as np
import pyarrow as pa

from strata.format.columns import child
from strata.model.schema import Relation
from strata.stats.bloom import bloom_hashes, filter_of
from strata.stats.members import JSON_FORM, Sought, place_named, values_at
from strata.stats.wire import BITS, BLOOM, SET, bloom_name, path_name, set_name

_BITS_EACH = 12
_FETCHED = pa.struct([*BLOOM, (BITS, pa.binary())])


def member_stats(
    rows: dict[str, pa.Array], stats: pa.Table, relation: Relation, rows_a_part: int, seed: int
) -> dict[str, pa.Array]:
    """Return sets, or fetched bloom filters, or nothing, part by part, for each place."""
    rng = random.Random(seed)
    places = [p for name in stats.column_names if (p := place_named(relation, name)) is not None]
    table = pa.table({child(relation.by_name[name].id): rows[name] for name in rows})
    parts = range(table.num_rows // rows_a_part)
    found = [values_at(table.slice(n * rows_a_part, rows_a_part), places) for n in parts]
    columns: dict[str, pa.Array] = {}
    for place, values in zip(places, zip(*found, strict=True), strict=True):
        known = [None if _unknown(stats, place, n) else one for n, one in enumerate(values)]
        chosen = [rng.choice(("set", "set", "bloom", "bloom", "")) for _ in parts]
        sets = [_set(place, one, kind) for one, kind in zip(known, chosen, strict=True)]
        blooms = [_bloom(place, one, kind) for one, kind in zip(known, chosen, strict=True)]
        columns[set_name(place.name)] = pa.array(sets, SET)
        columns[bloom_name(place.name)] = pa.array(blooms, _FETCHED)
    return columns


def _unknown(stats: pa.Table, place: Sought, part: int) -> bool:
    """Return whether readers may disagree about a document of a part."""
    if place.form != JSON_FORM:
        return False
    root = path_name(place.column.id, ())
    return root not in stats.column_names or not stats[root][part].is_valid


def _set(place: Sought, values: pa.Array | None, kind: str) -> dict[str, object] | None:
    if values is None or kind != "set":
        return None
    return {"form": place.form, "values": sorted(set(values.to_pylist()))}


def _bloom(place: Sought, values: pa.Array | None, kind: str) -> dict[str, object] | None:
    if values is None or kind != "bloom":
        return None
    bits = filter_of(np.unique(bloom_hashes(values)), _BITS_EACH)
    stored = {"form": place.form, "key": "fetched", "size_bytes": len(bits)}
    return {**stored, "distinct": len(values), BITS: bits}
