"""Faults in stored bytes: what disks, networks and faulty writers do to parts."""

from collections.abc import Callable, Iterator
from io import BytesIO
from random import Random
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from demo.faults.site import Injected, Place, Site
from strata.format.columns import K_S, V_S, D

Rewrite = Callable[[pa.Table], pa.Table | None]


def _flipped(site: Site, draw: Random) -> Injected | None:
    place = next(iter(site.places(draw)), None)
    if place is None:
        return None
    data = bytearray(site.data(place.ref.key))
    at = draw.randrange(4, len(data) // 2)  # inside the pages, which carry checksums
    data[at] ^= 0xFF
    site.overwrite(place.ref.key, bytes(data))
    return Injected(place.ref.key, "", f"byte {at} flipped")


def _truncated(site: Site, draw: Random) -> Injected | None:
    place = next(iter(site.places(draw)), None)
    if place is None:
        return None
    data = site.data(place.ref.key)
    site.overwrite(place.ref.key, data[: len(data) * 2 // 3])
    return Injected(place.ref.key, "", "a third of the part cut off")


def _lost(site: Site, draw: Random) -> Injected | None:
    place = next(iter(site.places(draw)), None)
    if place is None:
        return None
    site.stores.blob.delete(place.ref.key)
    return Injected(place.ref.key, "does not exist", "part deleted")


def _exchanged(site: Site, draw: Random) -> Injected | None:
    places = site.places(draw)
    if len(places) < 2:
        return None
    a, b = places[:2]
    one, other = site.data(a.ref.key), site.data(b.ref.key)
    site.overwrite(a.ref.key, other)
    site.overwrite(b.ref.key, one)
    return Injected(a.ref.key, "digest", f"bytes exchanged with {b.ref.key}")


def _rewritten(names: str, rewrite: Rewrite, layout: str | None = None):  # type: ignore[no-untyped-def]
    """Return the fault of a writer that stores other rows than it records."""

    def inject(site: Site, draw: Random) -> Injected | None:
        for place in site.places(draw, layout):
            table = pq.read_table(BytesIO(site.data(place.ref.key)))
            new = rewrite(table)
            if new is not None:
                site.overwrite(place.ref.key, _encoded(site, place, new))
                return Injected(place.ref.key, names, "part rewritten")
        return None

    return inject


def _encoded(site: Site, place: Place, table: pa.Table) -> bytes:
    """Return a table as Parquet with the footer of a part, as many rows as it says included."""
    meta = pq.ParquetFile(BytesIO(site.data(place.ref.key))).metadata.metadata
    sink = BytesIO()
    table = table.replace_schema_metadata({k: v for k, v in meta.items() if k != b"ARROW:schema"})
    pq.write_table(table, sink, write_page_checksum=True)
    return sink.getvalue()


def _reversed(table: pa.Table) -> pa.Table | None:
    return table.take(list(range(table.num_rows))[::-1])


def _twice(table: pa.Table) -> pa.Table | None:
    """Return the rows with the first one in the place of the second."""
    return table.take([0, 0, *range(2, table.num_rows)]) if table.num_rows > 2 else None


def _retraction_turned(table: pa.Table) -> pa.Table | None:
    negative = pc.less(table[D], 0)
    if not pc.any(negative).as_py():
        return None
    index = table.column_names.index(D)
    return table.set_column(index, table.schema.field(index), pc.abs(table[D]))


def _halves_differ(table: pa.Table) -> pa.Table | None:
    """Return the rows with one number of the columns changed, and the row codec as it was."""
    for name in (V_S, K_S):
        struct = table[name].combine_chunks()
        for i, field in enumerate(struct.type):
            if pa.types.is_integer(field.type) and struct.field(i).null_count < len(struct):
                return _with_child(table, name, struct, i)
    return None


def _with_child(table: pa.Table, name: str, struct: pa.StructArray, i: int) -> pa.Table:
    children = [struct.field(n) for n in range(struct.type.num_fields)]
    children[i] = pc.bit_wise_xor(children[i], pa.scalar(1, children[i].type))
    fields = list(struct.type)
    new = pa.StructArray.from_arrays(children, fields=fields)
    index = table.column_names.index(name)
    return table.set_column(index, table.schema.field(index), new)


def _faults() -> Iterator[tuple[str, Callable[[Site, Random], Injected | None]]]:
    yield "a byte of a part flipped", _flipped
    yield "a part cut short", _truncated
    yield "a part lost", _lost
    yield "two parts exchanged", _exchanged
    yield "rows in the wrong order", _rewritten("not sorted", _reversed)
    yield "a row lost and another doubled", _rewritten("digest", _twice)
    yield "retractions lost", _rewritten("diffs_sum", _retraction_turned)
    yield "row codec and columns disagree", _rewritten("differ", _halves_differ, "both")


FAULTS: Final = dict(_faults())
