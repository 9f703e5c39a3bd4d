"""Write the frozen files of the current format version. Run once for each new version.

    .venv/bin/python -m tests.formats.freeze

Files that exist are left alone: what was once written must be read for ever. A folder is a set:
`v1` has the types of the first release, `v1_types` every type and parts that are damaged or from
the future. `expected.json` says what is in a set's parts, for readers in any language.
"""

import io
import json
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from strata.format.digest import content_digest
from strata.format.manifest import PartRef, Split, encode_manifest, manifest_table
from strata.format.part import Description, encode_part
from strata.model.schema import Relation
from strata.model.spec import LAYOUTS
from tests.formats import every_type, logical
from tests.formats.contents import OLD, PAGED, VERSION, updates
from tests.support.paged import batch_of, cut
from tests.support.stored import memory_stores

HERE = Path(__file__).parent


def freeze() -> list[Path]:
    """Write the files that are missing and return them."""
    written = []
    for folder, files in {f"v{VERSION}": _first(), f"v{VERSION}_types": _types()}.items():
        (HERE / folder).mkdir(exist_ok=True)
        for name, data in files.items():
            path = HERE / folder / name
            if not path.exists():
                path.write_bytes(data)
                written.append(path)
    return written


def _first() -> dict[str, bytes]:
    values = {
        str(c.id): [logical.of_arrow(v, c.type) for v in updates()[str(c.id)]] for c in OLD.columns
    }
    values |= {name: updates()[name].to_pylist() for name in ("t", "d")}
    return {
        **{f"part-{layout}.parquet": _part(layout) for layout in LAYOUTS},
        "manifest.arrow": encode_manifest(_manifest()),
        "pages.zip": _pages(),
        "expected.json": _expected(OLD, values),
    }


def _part(layout: str) -> bytes:
    return encode_part(
        updates(), OLD, layout, description=Description(-5, 1000, 7), row_group_bytes=600
    ).data


def _types() -> dict[str, bytes]:
    def part(layout: str) -> bytes:
        return encode_part(
            every_type.updates(),
            every_type.RELATION,
            layout,
            description=Description(-5, 1000, 7),
            row_group_bytes=4000,
        ).data

    parts = {layout: part(layout) for layout in LAYOUTS}
    columns = ("structured", "both")
    return {
        **{f"part-{layout}.parquet": data for layout, data in parts.items()},
        **{f"damaged-{layout}.parquet": damaged(parts[layout]) for layout in columns},
        "future-both.parquet": relabelled(parts["both"], "strata.format_version", "2"),
        "expected.json": _expected(every_type.RELATION, every_type.values()),
    }


def damaged(part: bytes) -> bytes:
    """Return a part as a writer with a known fault left it: migration 0, columns turned round."""
    table = pq.read_table(pa.BufferReader(part))
    for name in ("k_s", "v_s"):
        index = table.schema.get_field_index(name)
        turned = table[name].take(pa.array(range(table.num_rows - 1, -1, -1)))
        table = table.set_column(index, table.schema.field(index), turned)
    return relabelled(_write(table), "strata.migration", "0")


def relabelled(part: bytes, key: str, value: str) -> bytes:
    """Return a part with another entry in its footer."""
    table = pq.read_table(pa.BufferReader(part))
    metadata = {**table.schema.metadata, key.encode(): value.encode()}
    return _write(table.replace_schema_metadata(metadata))


def _write(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=3, write_page_checksum=True, compression="zstd")
    return bytes(sink.getvalue().to_pybytes())


def _expected(relation: Relation, values: dict[str, list[Any]]) -> bytes:
    """Return what a set's parts hold, as JSON: the types by column id, the key, the values."""
    types = {str(c.id): logical.type_json(c.type) for c in relation.columns}
    what = {"key": relation.key, "types": types, "values": values}
    return json.dumps(what, indent=1, ensure_ascii=True).encode() + b"\n"


def _manifest() -> pa.Table:
    first = PartRef(
        key="frozen/parts/1", size_bytes=100, rows=6, run=0, layout="both", relation_version=4,
        order=(1, 2), t_low=-5, t_high=999, diffs_sum=2, digest=content_digest(updates(), OLD),
        retractions=True, key_low=b"\x01", key_high=None,
        splits=(Split(0, b"\x01"), Split(3, b"\x02")), stats_version=1, stats_bytes=77,
    )  # fmt: skip
    second = replace(
        first,
        key="frozen/parts/2",
        key_high=b"\x09",
        splits=(),
        layout="row",
        stats_version=None,
        stats_bytes=0,
    )
    low = {"nulls": 1, "low": -7, "high": 2**40, "low_exact": True, "high_exact": False}
    stats = pa.RecordBatch.from_pylist([{"rows": 6, "s.4": low, "s.13$.a": {"present": 2}}])
    return manifest_table([first, second], [stats, None])


def _pages() -> bytes:
    """Return the blobs of a manifest in pages of two parts, below two levels of indexes of two."""
    stores = memory_stores()
    with cut(2, 2):
        batch_of(stores, PAGED, 0, 10)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for info in stores.blob.list(""):
            archive.writestr(zipfile.ZipInfo(info.key), stores.blob.get(info.key) or b"")
    return packed.getvalue()


if __name__ == "__main__":
    sys.stdout.writelines(f"{path}\n" for path in freeze())
