"""Look-ups of what is not sorted: `python -m benchmarks.lookups [PARTS]`.

First the precision: ids in any order in 43 parts, each look-up of one that is there, by the bits of
a filter for each distinct value. Then the price: the way down through a stored manifest where
bounds leave a thousand of many parts, with and without bloom filters, A B A B, in CPU time.
"""

import argparse
import statistics
import sys
import time

import numpy as np
import pyarrow as pa

from strata.decide.descent import BatchStep
from strata.decide.question import Question
from strata.expr.filter import Filter
from strata.expr.nodes import Call, Literal
from strata.expr.nodes import Column as Field
from strata.format.manifest import SCHEMA, encode_manifest
from strata.model.schema import Column, Relation
from strata.model.settings import StoreSettings
from strata.model.types import parse_type
from strata.state.state import Batch
from strata.stats.bloom import bloom_hashes, filter_of, hold_all
from strata.stats.wire import BLOOM, scalar_type
from strata.store.interface import Blob
from strata.store.keys import bloom_key_of, content_hash, manifest_key, part_prefix
from strata.store.open import open_stores

RELATION = Relation(
    0, (Column(1, "day", parse_type("int64")), Column(2, "id", parse_type("string"))), (1,), ()
)
SURVIVORS, IDS, ROUNDS = 1000, 20_000, 7
DAY, ID = Field(1, "day", "long"), Field(2, "id", "string")


def precision(parts: int = 43, lookups: int = 20_000) -> None:
    """Print how many parts a look-up keeps, where one holds the id."""
    names = [pa.array([f"us{n:05}{i:06}".encode() for i in range(IDS)]) for n in range(parts)]
    asked = pa.array([names[n % parts][n].as_py() for n in range(lookups)])
    for bits in (8, 12, 16):
        made = [filter_of(np.unique(bloom_hashes(some)), bits) for some in names]
        kept = sum(int(hold_all(one, asked).sum()) for one in made)
        size = 8 * sum(map(len, made)) / (parts * IDS)
        sys.stdout.write(
            f"{bits} bits: {size:.2f} a value, {kept / lookups:.2f} parts of {parts}\n"
        )


def manifest(parts: int, blob: Blob | None) -> pa.Table:
    """Return statistics of many parts, a thousand to a day; with filters if there is a store."""
    days = np.arange(parts) // SURVIVORS
    texts = {"low": pa.array(["a"] * parts), "high": pa.array(["z"] * parts)}
    given = {"rows": pa.array(np.full(parts, IDS)), "stats_version": pa.array([1] * parts)}
    table = {
        **{field.name: _plain(field, parts) for field in SCHEMA},
        **given,
        "s.1": _bounds("int64", {"low": pa.array(days), "high": pa.array(days)}, parts),
        "s.2": _bounds("string", texts, parts),
    }
    if blob is not None:
        table["s.bloom.2"] = _blooms(parts, blob)
    schema = pa.schema(
        [SCHEMA.field(n) if n in SCHEMA.names else (n, a.type) for n, a in table.items()]
    )
    return pa.table([a.cast(f.type) for a, f in zip(table.values(), schema, strict=True)], schema)


def _plain(field: pa.Field, parts: int) -> pa.Array:
    """Return a column of zeros, empty texts and empty lists."""
    if pa.types.is_list(field.type):
        return pa.array([[]] * parts, field.type)
    if pa.types.is_string(field.type):
        return pa.array([f"shards/s/parts/g0/{n:040x}.parquet" for n in range(parts)])
    if pa.types.is_binary(field.type):
        return pa.array([b""] * parts, field.type)
    return pa.array(np.zeros(parts, np.int64)).cast(field.type)


def _bounds(kind: str, ends: dict[str, pa.Array], parts: int) -> pa.StructArray:
    shape = scalar_type(parse_type(kind))
    zero, yes = pa.array(np.zeros(parts, np.int64)), pa.array(np.ones(parts, bool))
    given = {"nulls": zero, "low_exact": yes, "high_exact": yes, **ends}
    return pa.StructArray.from_arrays([given[f.name] for f in shape], fields=list(shape))


def _blooms(parts: int, blob: Blob) -> pa.StructArray:
    """Return where filters are stored; the first day's are."""
    keys = [f"shards/s/blooms/{n:040x}.bloom" for n in range(parts)]
    for n in range(SURVIVORS):
        ids = pa.array([f"m{n}-{i}".encode() for i in range(200)])
        bits = filter_of(np.unique(bloom_hashes(ids)), 8)
        keys[n] = bloom_key_of(part_prefix("s"), content_hash(bits))
        blob.set(keys[n], bits)
    sizes = pa.array(np.full(parts, 192))
    fields = [pa.array(["text"] * parts), pa.array(keys), sizes, sizes]
    return pa.StructArray.from_arrays(fields, fields=list(BLOOM))


def price(parts: int) -> None:
    """Print the CPU time of a plan with filters against one without."""
    stores = open_stores(StoreSettings("memory://lookups", "memory://lookups"))
    blob = stores.blob
    first = Call("equal_to", (DAY, Literal(0, "long")), "boolean")
    second = Call("equal_to", (ID, Literal("m7-7", "string")), "boolean")
    asked = Filter(Call("and", (first, second), "boolean"), "day = 0 and id = 'm7-7'", 0, 0)
    question = Question(asked, (RELATION,))
    tables = {"bounds": manifest(parts, None), "blooms": manifest(parts, blob)}
    steps = {}
    for name, table in tables.items():
        data = encode_manifest(table)
        key = manifest_key("s", content_hash(data))
        blob.set(key, data)
        batch = Batch(0, 1, 0, parts=parts, manifest=key)
        steps[name] = BatchStep(stores, "s", batch, None, question, None)
    took: dict[str, list[float]] = {name: [] for name in tables}
    kept = {}
    for _ in range(ROUNDS):
        for name, step in steps.items():
            began = time.process_time()
            kept[name] = sum(int(piece.keep.sum()) for piece in step.narrowed())
            took[name].append(time.process_time() - began)
    medians = {name: statistics.median(times) for name, times in took.items()}
    for name, median in medians.items():
        sys.stdout.write(f"{name}: {1000 * median:.0f} ms, {kept[name]:,} of {parts:,} parts\n")
    sys.stdout.write(f"ratio {medians['blooms'] / medians['bounds']:.2f}\n")


def main() -> None:
    """Run both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", type=int, nargs="?", default=1_000_000)
    options = parser.parse_args()
    precision()
    price(options.parts)


if __name__ == "__main__":
    main()
