"""Parts and manifests from nowhere: updates or Corrupt, never a crash and never anything else.

An input is a script: which frozen file, how it is to be damaged, and where. Bytes alone would
hardly get past Parquet's footer; so part of the scripts make a *valid* file that lies: other
columns, other types, nulls, other words in the footer, any bytes as encoded rows.
"""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from strata.errors import StrataError
from strata.format.manifest import decode_manifest, head_of, part_refs, stats_rows
from strata.format.pages import decode_index
from strata.format.part import read_footer, read_part, validate_part
from tests.formats import every_type
from tests.formats.contents import NEW, OLD

FROZEN: Final = Path(__file__).parents[1] / "formats"
PARTS: Final = [
    (FROZEN / folder / f"part-{layout}.parquet").read_bytes()
    for folder in ("v1", "v1_types")
    for layout in ("row", "both", "structured")
]
MANIFEST: Final = (FROZEN / "v1" / "manifest.arrow").read_bytes()
MODES: Final = ("row", "structured", "row_with_validate")


class Script:
    """Bytes, taken from the front; zeros when there are no more."""

    def __init__(self, data: bytes) -> None:
        """Begin at the front."""
        self.data, self.at = data, 0

    def byte(self) -> int:
        """Take one."""
        self.at += 1
        return self.data[self.at - 1] if self.at <= len(self.data) else 0

    def below(self, end: int) -> int:
        """Take a number in [0, end)."""
        value = self.byte() << 16 | self.byte() << 8 | self.byte()
        return value % end if end else 0

    def some(self) -> bytes:
        """Take up to 255 bytes."""
        size = self.byte()
        found = self.data[self.at : self.at + size]
        self.at += size
        return found

    def more(self) -> bool:
        """Return whether anything is left."""
        return self.at < len(self.data)


def check(data: bytes) -> None:
    """Damage a file as the script says and read it in every way."""
    script = Script(data)
    kind, which = script.byte() % 4, script.byte()
    if kind == 0:
        _read(_patched(PARTS[which % len(PARTS)], script), which)
    elif kind == 1:
        _read_manifest(_patched(MANIFEST, script))
    elif kind == 2:
        _read_manifest(_lying_manifest(script))
    else:
        _read(_lying(PARTS[which % len(PARTS)], script), which)


def _patched(data: bytes, script: Script) -> bytes:
    """Return the file with some bytes changed, put in, left out, or its end cut off."""
    made = bytearray(data)
    for _ in range(8):
        if not script.more():
            break
        action = script.byte() % 5
        # Every other change is near the end, where the footer is.
        near = script.byte() % 2
        at = max(0, len(made) - 1 - script.below(1200)) if near else script.below(len(made) + 1)
        if action == 0:
            del made[at:]
        elif action == 1:
            del made[at : at + 1 + script.byte()]
        elif action == 2:
            made[at:at] = script.some()
        else:
            new = script.some()
            made[at : at + len(new)] = new
    return bytes(made)


def _lying(data: bytes, script: Script) -> bytes:
    """Return a valid file in which something is not what it should be."""
    table = pq.read_table(io.BytesIO(data))
    metadata = dict(table.schema.metadata or {})
    for _ in range(4):
        if not script.more():
            break
        action, column = script.byte() % 6, script.below(table.num_columns)
        name = table.column_names[column]
        if action == 0 and pa.types.is_binary(table.schema.field(name).type):
            rows = [script.some() for _ in range(table.num_rows)]
            table = _with(table, column, pa.array(rows, table.schema.field(name).type))
        elif action == 1:
            table = _with(table, column, pa.nulls(table.num_rows, table.schema.field(name).type))
        elif action == 2:
            table = _with(table, column, pa.array(range(table.num_rows), pa.int32()))
        elif action == 3:
            table = table.drop_columns([name]) if table.num_columns > 1 else table
        elif action == 4 and metadata:
            key = sorted(metadata)[script.below(len(metadata))]
            metadata[key] = script.some()
        else:
            table = table.slice(0, script.below(table.num_rows + 1))
    out = io.BytesIO()
    pq.write_table(table.replace_schema_metadata(metadata), out)
    return out.getvalue()


def _lying_manifest(script: Script) -> bytes:
    """Return a valid Arrow file that is no manifest, or an odd one."""
    table = pa.ipc.open_file(pa.BufferReader(MANIFEST)).read_all()
    for _ in range(3):
        column = script.below(table.num_columns)
        name, kind = table.column_names[column], table.schema.field(column).type
        if script.byte() % 2:
            table = table.drop_columns([name]) if table.num_columns > 1 else table
        elif pa.types.is_binary(kind) or pa.types.is_string(kind):
            values = [script.some().decode("latin1") for _ in range(table.num_rows)]
            made = [v.encode() for v in values] if pa.types.is_binary(kind) else values
            table = table.set_column(column, pa.field(name, kind), pa.array(made, kind))
        else:
            table = table.set_column(column, pa.field(name, kind), pa.nulls(table.num_rows, kind))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def _with(table: pa.Table, column: int, array: pa.Array) -> pa.Table:
    return table.set_column(column, pa.field(table.column_names[column], array.type), array)


def _read(data: bytes, which: int) -> None:
    ours = which % len(PARTS) < 3
    relation, known = (OLD, [OLD, NEW]) if ours else (every_type.RELATION, [every_type.RELATION])
    _tried(lambda: read_footer(data))
    for mode in MODES:
        _tried(lambda mode=mode: _whole(data, relation, known, mode))  # type: ignore[misc]
    _tried(lambda: validate_part(data, relation, known))


def _whole(data: bytes, relation, known, mode: str) -> None:  # type: ignore[no-untyped-def]
    for batch in read_part(data, relation, relations=known, read_format=mode, threads=False):
        batch.validate(full=True)


def _read_manifest(data: bytes) -> None:
    _tried(lambda: head_of(data)[1])
    _tried(lambda: decode_index(data))

    def read() -> None:
        table = decode_manifest(data)
        part_refs(table)
        stats_rows(table)

    _tried(read)


def _tried(read: Callable[[], object]) -> None:
    try:
        read()
    except StrataError:
        return


def seeds() -> list[bytes]:
    """Return scripts of every kind of damage to every file."""
    found = []
    for which in range(len(PARTS)):
        found.append(bytes([0, which]))
        found += [
            bytes([0, which, a, n, 0, 1, which, 4, 1, 2, 3, 255]) for a in range(5) for n in (0, 1)
        ]
        found += [bytes([3, which, a, 0, 0, c, 3, 10, 2, 8]) for a in range(6) for c in range(3)]
    found += [bytes([1, 0, a, n, 0, 2, 9, 2, 7, 7]) for a in range(5) for n in (0, 1)]
    found += [bytes([2, 0, 0, 0, c, a, 3, 65, 66, 67]) for c in range(12) for a in (0, 1)]
    return found
